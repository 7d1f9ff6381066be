"""Checks of compatibility through requests that write nothing."""

from __future__ import annotations

import pytest
from played import INT, STRING, Played, record, refused

ONE = record("a:int")
TWO = record("a:int", "b:int", default=0)
OTHER = record("a:int", "c:string")  # reads neither


@pytest.fixture
def played() -> Played:
    played = Played()
    played.ids("s", ONE, TWO)
    return played


def test_against_a_version_the_latest_or_all(played: Played) -> None:
    reads_two = record("b:int")
    body = {"schema": reads_two}
    assert played.compatibility("s", body, "2") == {"is_compatible": True}
    assert played.compatibility("s", body, "latest") == {"is_compatible": True}
    assert played.compatibility("s", body, "1") == {"is_compatible": False}
    assert played.compatibility("s", body) == {"is_compatible": True}, "BACKWARD: the latest alone"
    played.do(played.set_config("s", {"compatibility": "BACKWARD_TRANSITIVE"}))
    assert played.compatibility("s", body) == {"is_compatible": False}


def test_what_it_says_when_it_is_verbose(played: Played) -> None:
    assert played.compatibility("s", {"schema": TWO}, verbose=True) == {"is_compatible": True, "messages": []}
    answer = played.compatibility("s", {"schema": OTHER}, "1", verbose=True)
    assert answer["is_compatible"] is False
    assert answer["messages"][0].startswith("{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE'")
    assert answer["messages"][1:] == [
        "{oldSchemaVersion: 1}",
        f"{{oldSchema: '{ONE}'}}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]


def test_a_subject_that_is_not_there_forbids_nothing(played: Played) -> None:
    assert played.compatibility("t", {"schema": STRING}) == {"is_compatible": True}
    assert played.compatibility("t", {"schema": STRING}, "latest") == {"is_compatible": True}
    with refused(40402, "Version 1 not found."):
        played.compatibility("t", {"schema": STRING}, "1")


def test_deleted_versions_do_not_count(played: Played) -> None:
    played.do(played.delete_version("s", "2"))
    assert played.compatibility("s", {"schema": record("b:int")}) == {"is_compatible": False}
    with refused(40402, "Version 2 not found."):
        played.compatibility("s", {"schema": TWO}, "2")


def test_a_schema_that_is_none(played: Played) -> None:
    for schema, message in (("{", "Invalid schema of type AVRO, details: "), (" ", "Empty schema")):
        with refused(42201, message):
            played.compatibility("s", {"schema": schema})
        answer = played.compatibility("s", {"schema": schema}, verbose=True)
        assert not answer["is_compatible"]
        assert answer["messages"][0].startswith(message)


@pytest.mark.parametrize(
    ("level", "new", "is_compatible"),
    [
        ("NONE", STRING, True),
        ("BACKWARD", TWO, True),
        ("BACKWARD", OTHER, False),
        ("FORWARD", OTHER, True),
        ("FORWARD", record("c:string"), False),
        ("FULL", TWO, True),
        ("FULL", OTHER, False),
    ],
)
def test_levels(level: str, new: str, is_compatible: bool) -> None:
    played = Played()
    played.put("s", ONE)
    played.do(played.set_config(None, {"compatibility": level}))
    assert played.compatibility("s", {"schema": new}) == {"is_compatible": is_compatible}
    if not is_compatible:
        with refused(40901, f"compatibility: '{level}'"):
            played.register("s", {"schema": new})
    else:
        assert played.put("s", new)["version"] == 2


def test_versions_of_another_group_do_not_count() -> None:
    played = Played()
    played.do(played.set_config("s", {"compatibilityGroup": "major"}))

    def body(schema: str, major: str | None) -> dict:
        return {"schema": schema, "metadata": {"properties": {} if major is None else {"major": major}}}

    played.do(played.register("s", body(STRING, "1")))
    played.do(played.register("s", body(INT, "2")))
    assert played.compatibility("s", body('"bytes"', "1"))["is_compatible"]
    assert not played.compatibility("s", body('"bytes"', "2"))["is_compatible"]
    assert played.compatibility("s", body('"boolean"', None))["is_compatible"]


def test_the_lenient_policy_is_asked_for_by_the_configuration() -> None:
    strict = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}
    old = '{"type":"object","properties":{}}'
    new = str(strict).replace("'", '"').replace("True", "true")
    played = Played()
    played.put("s", old, schemaType="JSON")
    body = {"schema": new, "schemaType": "JSON"}
    assert not played.compatibility("s", body)["is_compatible"]
    played.do(played.set_config("s", {"compatibilityPolicy": "LENIENT"}))
    assert played.compatibility("s", body)["is_compatible"]


def test_another_format_is_never_compatible(played: Played) -> None:
    body = {"schema": '{"type":"object"}', "schemaType": "JSON"}
    assert played.compatibility("s", body) == {"is_compatible": False}
