"""A limited registry answers as one that never had the other subjects."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.registry.subjects import Record, Registry, RequestRefused

SUBJECTS = ("a-1", "a-2", "b-1", "b-2", ":.c:a-1", ":.c:x", "a", "ab")
SCHEMAS = [json.dumps(each) for each in ("int", "long", "string", ["null", "int"], "bytes")]
PREFIXES = [("a-",), ("a",), (":.c:",), ("a-", ":.c:x"), ("b-2",), ("nothing-",), ("",)]
OPERATIONS = 60
HISTORIES = 3
READS = 300


def subject_of(record: Record) -> str | None:
    """The subject of a record; None for those of the top level and of contexts."""
    key = json.loads(record.key)
    found: str | None = key.get("subject")
    return found


def random_records(rng: random.Random) -> list[Record]:
    """The records of random requests, which are decided by a registry that replays them."""
    registry = Registry()
    records: list[Record] = []
    for _ in range(OPERATIONS):
        subject, other = rng.choice(SUBJECTS), rng.choice(SUBJECTS)
        body: dict[str, Any] = {"schema": rng.choice(SCHEMAS)}
        if rng.random() < 0.3:
            body["references"] = [{"name": "r", "subject": other, "version": 1}]
        request = rng.choices(
            [
                lambda subject=subject, body=body: registry.register(subject, body),
                lambda subject=subject: registry.delete_subject(subject),
                lambda subject=subject: registry.delete_version(subject, "latest"),
                lambda subject=subject, other=other: registry.set_config(
                    subject, {"compatibility": "NONE", "alias": other}
                ),
                lambda subject=subject: registry.set_config(subject, {"compatibility": "NONE"}),
                lambda: registry.set_config(None, {"compatibility": rng.choice(("NONE", "FULL"))}),
                lambda subject=subject: registry.set_mode(subject, {"mode": "READONLY"}),
            ],
            [20, 1, 2, 2, 3, 1, 1],
        )[0]
        try:
            decided = request().records
        except RequestRefused:
            continue
        for record in decided:
            registry.replay(record.key, record.value, len(records))
            records.append(record)
    return records


def replayed(records: Iterator[tuple[int, Record]]) -> Registry:
    registry = Registry()
    for time_ms, record in records:
        registry.replay(record.key, record.value, time_ms)
    return registry


def reads(full: Registry) -> Iterator[tuple[str, Callable[[Registry], Any]]]:
    """Yield reads of everything that there is, and of what there is not."""
    ids = range(full.greatest_id() + 2)
    for deleted in (False, True):
        yield "subjects", lambda r, d=deleted: r.subjects(deleted=d)
        yield "all subjects", lambda r, d=deleted: r.subjects(subject_prefix=":*:", deleted=d)
        yield "schemas", lambda r, d=deleted: r.schemas(deleted=d, subject_prefix=":*:", aliases=True)
        for id in ids:
            for subject in (None, *SUBJECTS):
                yield (
                    f"versions of {id} {subject}",
                    lambda r, d=deleted, i=id, s=subject: r.versions_of_id(i, subject=s, deleted=d),
                )
    for id in ids:
        for subject in (None, *SUBJECTS):
            yield f"schema {id} {subject}", lambda r, i=id, s=subject: r.schema_by_id(i, subject=s)
        yield f"resolved {id}", lambda r, i=id: r.schema_by_id(i, format="resolved")
    for whole in full.schemas(subject_prefix=":*:", deleted=True):
        yield "guid", lambda r, w=whole: r.schema_by_guid(w["guid"])
        yield "ids of guid", lambda r, w=whole: r.ids_of_guid(w["guid"])
    for subject in SUBJECTS:
        yield f"alias {subject}", lambda r, s=subject: r.aliased(s)
        yield f"versions {subject}", lambda r, s=subject: r.versions(s, deleted=True)
        yield f"latest {subject}", lambda r, s=subject: r.version(s, "latest", deleted=True)
        yield f"config {subject}", lambda r, s=subject: r.config(s, default_to_global=True)
        yield f"mode {subject}", lambda r, s=subject: r.mode(s, default_to_global=True)
        yield f"referenced {subject}", lambda r, s=subject: r.referenced_by(s, "1", deleted=True)
        for schema in SCHEMAS:
            for other in (None, *SUBJECTS):
                body: dict[str, Any] = {"schema": schema}
                if other is not None:
                    body["references"] = [{"name": "r", "subject": other, "version": 1}]
                yield f"lookup {subject} {body}", lambda r, s=subject, b=body: r.lookup(s, b)
                yield f"check {subject} {body}", lambda r, s=subject, b=body: r.compatibility(s, b)
                yield f"registered {subject} {body}", lambda r, s=subject, b=body: r.registered(s, b)


def answer(registry: Registry, read: Callable[[Registry], Any]) -> Any:
    try:
        return read(registry)
    except RequestRefused as error:
        return error.code, error.message


@pytest.mark.parametrize("prefixes", PREFIXES, ids=",".join)
def test_a_limited_registry_answers_as_one_without_the_others(prefixes: tuple[str, ...]) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(HISTORIES):
        records = list(enumerate(random_records(chance)))
        full = replayed(iter(records))
        kept = [
            (number, each)
            for number, each in records
            if (subject := subject_of(each)) is None or subject.startswith(prefixes)
        ]
        without, limited = replayed(iter(kept)), full.limited_to(prefixes)
        everything = list(reads(full))
        for name, read in chance.sample(everything, min(READS, len(everything))):
            assert answer(limited, read) == answer(without, read), name


def test_a_limited_registry_is_made_again_after_a_change() -> None:
    registry = Registry()

    def register(subject: str, schema: str) -> None:
        for record in registry.register(subject, {"schema": schema}).records:
            registry.replay(record.key, record.value)

    register("a-1", SCHEMAS[0])
    register("b-1", SCHEMAS[1])
    first = registry.limited_to(("a-",))
    assert first is registry.limited_to(("a-",))
    assert first.subjects() == ["a-1"]
    register("a-2", SCHEMAS[2])
    assert registry.limited_to(("a-",)).subjects() == ["a-1", "a-2"]
