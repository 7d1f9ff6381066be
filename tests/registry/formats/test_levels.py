"""The levels of compatibility over a subject's versions, and the messages that users see."""

import pytest

from penstock.registry.formats import Schema, parse
from penstock.registry.formats.levels import Level, Version, check

EMPTY = '{"type":"record","name":"R","fields":[]}'
WITH_A = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
WITH_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":0}]}'


def versions(*texts: str) -> list[Version]:
    return [Version(number, parse("AVRO", text)) for number, text in enumerate(texts, 1)]


def allowed(new: str, *earlier: str) -> set[str]:
    """The levels that allow a schema after these versions."""
    return {level.value for level in Level if not check(level, parse("AVRO", new), versions(*earlier))}


EVERY = {level.value for level in Level}


@pytest.mark.parametrize(
    ("earlier", "new", "expected"),
    [
        ([], WITH_A, EVERY),
        ([EMPTY], WITH_DEFAULT, EVERY),
        ([EMPTY], WITH_A, {"NONE", "FORWARD", "FORWARD_TRANSITIVE"}),
        ([WITH_A], EMPTY, {"NONE", "BACKWARD", "BACKWARD_TRANSITIVE"}),
        # The latest version has the field with a default, the first lacks it: only transitive levels refuse.
        ([EMPTY, WITH_DEFAULT], WITH_A, EVERY - {"BACKWARD_TRANSITIVE", "FULL_TRANSITIVE"}),
        ([WITH_A, WITH_DEFAULT], EMPTY, EVERY - {"FORWARD_TRANSITIVE", "FULL_TRANSITIVE"}),
    ],
)
def test_a_level_looks_at_its_versions_in_its_direction(
    earlier: list[str], new: str, expected: set[str]
) -> None:
    assert allowed(new, *earlier) == expected


def test_messages_name_rule_field_side_version_and_old_schema() -> None:
    messages = check(Level.BACKWARD, parse("AVRO", WITH_A), versions(EMPTY))
    assert messages == [
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'the field of the new schema at "
        "'/fields/0' is "
        "not in the old schema, and has no default', additionalInfo:'a'}",
        "{oldSchemaVersion: 1}",
        f"{{oldSchema: '{EMPTY}'}}",
    ]


def test_forward_speaks_of_the_old_schema_as_the_reader() -> None:
    messages = check(Level.FORWARD, parse("AVRO", EMPTY), versions(WITH_A))
    assert messages[0].startswith(
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'the field of the old"
    )


def test_full_tells_both_directions() -> None:
    old, new = '{"type":"string","maxLength":3}', '{"type":"string","pattern":"a"}'
    messages = check(Level.FULL, parse("JSON", new), [Version(7, parse("JSON", old))])
    rules = [message.split('"')[1] for message in messages[:-2]]
    assert rules == ["MAX_LENGTH_ADDED", "PATTERN_ADDED"]  # the old schema is checked first, as the reader
    assert messages[-2] == "{oldSchemaVersion: 7}"


def test_the_latest_offender_is_told() -> None:
    earlier = versions(WITH_A, '{"type":"record","name":"Q","fields":[]}', WITH_A)
    assert "{oldSchemaVersion: 2}" in check(Level.BACKWARD_TRANSITIVE, parse("AVRO", WITH_A), earlier)


def test_formats_do_not_follow_each_other() -> None:
    earlier = [Version(1, parse("JSON", "{}"))]
    (message, *_) = check(Level.BACKWARD, parse("AVRO", '"int"'), earlier)
    assert message == "the new schema is of type AVRO, but the old one of type JSON"
    assert check(Level.NONE, parse("AVRO", '"int"'), earlier) == []


def test_a_long_old_schema_is_cut() -> None:
    text = '{"type":"record","name":"R","doc":"' + "x" * 20_000 + '","fields":[]}'
    messages = check(Level.BACKWARD, parse("AVRO", WITH_A), versions(text))
    assert messages[-1].startswith("{oldSchema: <truncated> '{")
    assert len(messages[-1]) < 11_000


def test_what_a_path_holds_stays_as_it_is() -> None:
    old, new = ('{"properties":{"{reader} %s":{"type":"' + kind + '"}}}' for kind in ("string", "null"))
    (message, *_) = check(Level.BACKWARD, parse("JSON", new), [Version(1, parse("JSON", old))])
    assert "'#/properties/{reader} %s'" in message


def test_the_lenient_policy_takes_open_content_models_for_closed() -> None:
    old: Schema = parse("JSON", '{"type":"object"}')
    new = parse("JSON", '{"type":"object","properties":{"a":{"type":"string"}}}')
    assert check(Level.BACKWARD, new, [Version(1, old)])
    assert not check(Level.BACKWARD, new, [Version(1, old)], is_lenient=True)
