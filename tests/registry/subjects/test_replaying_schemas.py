"""Random requests compared with a naive model, and their records replayed in every order a topic may have."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from played import Played, record, shown

from penstock.registry.subjects import Record, Registry, RequestRefused

POOL = [record(f"f{number}:int", name="S") for number in range(5)]
SUBJECTS = ["s", "t", ":.c:s"]


@dataclass
class Model:
    """A model with lists instead of indices, which gives the answers of a registry without compatibility."""

    versions: list[list] = field(default_factory=list)  # subject, version, id, schema, is deleted
    greatest: dict[str, int] = field(default_factory=dict)

    def of(self, subject: str, *, deleted: bool) -> list[list]:
        return sorted(each for each in self.versions if each[0] == subject and (deleted or not each[4]))

    def register(self, subject: str, schema: str) -> tuple[int, int]:
        context = subject[:4] if subject.startswith(":") else ""
        there = [each for each in self.of(subject, deleted=False) if each[3] == schema]
        if there:
            return there[-1][1], there[-1][2]
        here = [each for each in self.versions if each[0].startswith(":") == bool(context)]
        ids = [each[2] for each in here if each[3] == schema]
        if not ids:
            self.greatest[context] = self.greatest.get(context, 0) + 1
        id = ids[0] if ids else self.greatest[context]
        version = 1 + max((each[1] for each in self.of(subject, deleted=True)), default=0)
        for each in self.of(subject, deleted=True):
            if each[2] == id:
                self.versions.remove(each)
        self.versions.append([subject, version, id, schema, False])
        return version, id

    def delete_version(self, subject: str, version: int, permanent: bool) -> int:
        found = [each for each in self.of(subject, deleted=True) if each[1] == version]
        if not found:
            return 40402 if self.of(subject, deleted=True) else 40401
        if found[0][4] != permanent:
            return 40407 if permanent else 40406
        if permanent:
            self.versions.remove(found[0])
        else:
            found[0][4] = True
        return version

    def delete_subject(self, subject: str, permanent: bool) -> int | list[int]:
        there, alive = self.of(subject, deleted=True), self.of(subject, deleted=False)
        if not there:
            return 40401
        if not alive and not permanent:
            return 40404
        if alive and permanent:
            return 40405
        for each in there:
            if permanent:
                self.versions.remove(each)
            else:
                each[4] = True
        return [each[1] for each in (there if permanent else alive)]


def outcome(operation: Callable[[], object]) -> object:
    try:
        return operation()
    except RequestRefused as error:
        return error.code


@pytest.mark.parametrize("round", range(4))
def test_against_a_naive_model(round: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    played, model = Played(), Model()
    for scope in (None, ":.c:"):
        played.do(played.set_config(scope, {"compatibility": "NONE"}))
    for _ in range(80):
        subject, schema = chance.choice(SUBJECTS), chance.choice(POOL)
        version, permanent = chance.randrange(1, 8), chance.random() < 0.5
        match chance.randrange(5):
            case 0 | 1:
                answer = played.put(subject, schema)
                assert (answer["version"], answer["id"]) == model.register(subject, schema)
            case 2 | 3:
                found = outcome(
                    lambda subject=subject, version=version, permanent=permanent: played.do(
                        played.delete_version(subject, str(version), permanent=permanent)
                    )
                )
                assert found == model.delete_version(subject, version, permanent)
            case 4:
                found = outcome(
                    lambda subject=subject, permanent=permanent: played.do(
                        played.delete_subject(subject, permanent=permanent)
                    )
                )
                assert found == model.delete_subject(subject, permanent)
        check(played, model)


def check(played: Played, model: Model) -> None:
    listed = played.schemas(subject_prefix=":*:", deleted=True)
    assert [
        [each["subject"], each["version"], each["id"], each["schema"], each["deleted"]] for each in listed
    ] == sorted(model.versions)
    for subject, version, id, schema, is_deleted in model.versions:
        assert played.schema_by_id(id, subject=subject)["schema"] == schema
        if not is_deleted:
            assert played.lookup(subject, {"schema": schema})["version"] == version
    assert played.subjects() == sorted({each[0] for each in model.versions if not each[4]})


# The same records, in all the orders in which they may arrive.


def a_random_log(chance: random.Random) -> Played:
    """A registry with all kinds of records: with modes, configurations, imports and references."""
    played = Played()
    played.do(played.set_config(":.__GLOBAL:", {"compatibility": "NONE"}))
    for _ in range(150):
        subject, schema = chance.choice(SUBJECTS), chance.choice(POOL)
        scope = chance.choice([*SUBJECTS, None, ":.c:"])
        permanent, force = chance.random() < 0.5, chance.random() < 0.3
        refers = [{"name": "S", "subject": "s", "version": chance.choice([-1, 1, 2])}]
        number = chance.randrange(1, 9)
        operations: list[Callable[[], object]] = [
            lambda subject=subject, schema=schema: played.put(subject, schema),
            lambda subject=subject, schema=schema, number=number: played.put(
                subject, schema, id=number, version=1 + number % 4
            ),
            lambda refers=refers: played.put("t", record("s:S"), references=refers),
            lambda schema=schema: played.put("s", schema, metadata={"properties": {"a": schema[-9]}}),
            lambda subject=subject, number=number, permanent=permanent: played.do(
                played.delete_version(subject, str(number), permanent=permanent)
            ),
            lambda subject=subject, permanent=permanent: played.do(
                played.delete_subject(subject, permanent=permanent)
            ),
            lambda scope=scope, force=force: played.do(
                played.set_mode(scope, {"mode": "IMPORT"}, force=force)
            ),
            lambda scope=scope: played.do(played.delete_mode(scope, recursive=True)),
            lambda scope=scope, number=number: played.do(
                played.set_config(scope, {"compatibilityGroup": str(number), "compatibility": "NONE"})
            ),
            lambda scope=scope: played.do(played.delete_config(scope)),
        ]
        weights = [6, 6, 2, 2, 4, 2, 2, 2, 1, 1]
        outcome(chance.choices(operations, weights)[0])
    return played


def replayed(*logs: list[Record]) -> Registry:
    registry = Registry()
    for log in logs:
        for each in log:
            registry.replay(each.key, each.value)
    return registry


def compacted(log: list[Record], *, keeps_tombstones: bool) -> list[Record]:
    last = {each.key: offset for offset, each in enumerate(log)}
    kept = (each for offset, each in enumerate(log) if last[each.key] == offset)
    return [each for each in kept if keeps_tombstones or each.value is not None]


@pytest.mark.parametrize("round", range(4))
def test_the_image_is_what_the_records_say_however_they_come(round: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    played = a_random_log(chance)
    log, expected = played.log, shown(played)
    assert len(log) > 30
    assert shown(replayed(log)) == expected
    assert shown(replayed([each for each in log for _ in range(2)])) == expected, "each of them twice"
    cut = chance.randrange(len(log))
    assert shown(replayed(log[:cut], log[cut:])) == expected
    assert shown(replayed(log[:cut], log)) == expected, "again from the start"
    for keeps_tombstones in (True, False):
        head = compacted(log[:cut], keeps_tombstones=keeps_tombstones)
        assert shown(replayed(head, log[cut:])) == expected, f"compacted up to {cut}"


def test_a_decision_alone_changes_nothing() -> None:
    played = Played()
    played.put("s", POOL[0])
    before = shown(played)
    played.register("t", {"schema": POOL[1]})
    played.delete_subject("s")
    played.set_config(None, {"compatibility": "NONE"})
    played.set_mode(None, {"mode": "READONLY"})
    assert shown(played) == before
