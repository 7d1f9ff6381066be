"""Requests and records with anything in any part get either an answer or a refusal."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from played import STRING, Played, record, refused, shown
from test_schema_records import CONFIG, METADATA, RULES

from penstock.registry.subjects import Registry, RequestRefused

ANYTHING: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 1 << 40, 0.5, float("nan"), "", "x", "1", "\x00", "\ud800", "é" * 300),
    *(
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"a": {}},
        [{"name": "n"}],
        "latest",
        ":.c:s",
        ":.c",
        ":*:",
        "READONLY",
    ),
)
BODY = {
    "schema": record("a:int"),
    "schemaType": "AVRO",
    "version": 1,
    "id": 3,
    "references": [{"name": "S", "subject": "s", "version": 1}],
    "metadata": METADATA,
    "ruleSet": RULES,
}


def damaged(chance: random.Random, value: Any) -> Any:
    """Copy the value with one part, at any depth, removed or replaced."""
    if chance.random() < 0.25 or not isinstance(value, dict | list) or not value:
        return chance.choice(ANYTHING)
    if isinstance(value, list):
        index = chance.randrange(len(value))
        return [*value[:index], damaged(chance, value[index]), *value[index + 1 :]]
    name = chance.choice(list(value))
    if chance.random() < 0.2:
        return {each: value[each] for each in value if each != name}
    return {**value, name: damaged(chance, value[name])}


@pytest.mark.parametrize("round", range(3))
def test_requests_of_which_any_part_is_anything(round: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    played, codes = Played(), []
    played.put("s", record("x:int", name="S"))
    for _ in range(300):
        subject = chance.choice([*(each for each in ANYTHING if isinstance(each, str)), "s", "t"])
        text = chance.choice([str(each) for each in ANYTHING])
        operation = chance.choice(
            [
                lambda subject=subject: played.do(played.register(subject, damaged(chance, BODY))),
                lambda subject=subject: played.lookup(subject, damaged(chance, BODY)),
                lambda subject=subject, text=text: played.compatibility(subject, damaged(chance, BODY), text),
                lambda subject=subject: played.compatibility(subject, damaged(chance, BODY), verbose=True),
                lambda subject=subject: played.do(played.set_config(subject, damaged(chance, CONFIG))),
                lambda subject=subject: played.do(
                    played.set_mode(subject, damaged(chance, {"mode": "IMPORT"}), force=True)
                ),
                lambda subject=subject, text=text: played.do(played.delete_version(subject, text)),
                lambda subject=subject, text=text: played.version(subject, text, format=text),
                lambda subject=subject: played.schema_by_id(1, subject=subject),
                lambda text=text: played.schemas(subject_prefix=text, aliases=True, rule_type=text),
            ]
        )
        try:
            json.dumps(operation())
        except RequestRefused as error:
            codes.append(error.status)
    assert {400, 404, 422} <= set(codes) <= {400, 404, 409, 422}
    shown(played)
    assert shown(Played(log=played.log)) == shown(played)


def test_records_of_which_any_part_is_anything() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    played = Played()
    played.put("s", STRING, metadata=METADATA, ruleSet=RULES)
    played.put(":.c:s", STRING)
    played.do(played.set_config("s", CONFIG))
    played.do(played.set_mode("s", {"mode": "READONLY"}))
    played.do(played.delete_subject(":.c:s"))
    registry, reasons = Registry(), set()
    for _ in range(2_000):
        source = chance.choice(played.log)
        key, value = (json.loads(each or b"{}") for each in (source.key, source.value))
        if chance.random() < 0.5:
            key = damaged(chance, key)
        if chance.random() < 0.8:
            value = damaged(chance, value)
        data = [json.dumps(each).encode() for each in (key, value)]
        if chance.random() < 0.1:
            data[chance.randrange(2)] = data[1][: chance.randrange(len(data[1]))]
        reasons.add(registry.replay(data[0], None if chance.random() < 0.1 else data[1]))
    assert len(reasons) > 20
    shown(registry)


def test_a_number_may_be_written_as_a_floating_one() -> None:
    """JavaScript and R write all numbers so; a number with a fraction is refused."""
    played = Played()
    assert played.put("s", STRING, version=1.0)["version"] == 1
    for number in (1.5, float("inf"), float("nan"), 1e20):
        with refused(400, "expected a 32-bit number"):
            played.register("s", {"schema": STRING, "version": number})
