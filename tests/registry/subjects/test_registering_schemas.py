"""Registrations: versions, ids, schemas that exist already, explicit ids, and refusals."""

from __future__ import annotations

import pytest
from played import INT, STRING, Played, record, refused

from penstock.registry.subjects import Settings, records
from penstock.registry.subjects.records import SchemaKey, SchemaValue

ONE = record("a:int")
TWO = record("a:int", "b:int", default=0)  # can read data of ONE
THREE = record("a:int", "c:int", default=0)


def test_versions_count_per_subject_and_ids_per_context() -> None:
    played = Played()
    assert played.ids("s", ONE, TWO) == [1, 2]
    assert played.ids("t", STRING) == [3]
    assert played.ids(":.c:s", STRING, STRING) == [1, 1]
    assert [each["version"] for each in played.schemas(subject_prefix=":*:")] == [1, 1, 2, 1]


def test_the_same_schema_has_one_id_in_all_subjects_of_a_context() -> None:
    played = Played()
    assert (
        played.ids("s", ONE)
        == played.ids("t", '{"fields": [{"type":"int", "name":"a"}], "name":"R", "type":"record"}')
        == [1]
    )
    assert played.versions_of_id(1) == [{"subject": "s", "version": 1}, {"subject": "t", "version": 1}]


def test_a_schema_that_is_there_writes_nothing_even_where_nothing_may_be_written() -> None:
    played = Played()
    first = played.put("s", ONE)
    played.put("s", TWO)
    played.do(played.set_mode("s", {"mode": "READONLY"}))
    decision = played.register("s", {"schema": ONE})
    assert decision.records == ()
    assert decision.answer == played.registered("s", {"schema": ONE}) == first
    assert played.registered("s", {"schema": THREE}) is None
    with refused(42205, "Subject s in context  is in read-only mode"):
        played.register("s", {"schema": THREE})


def test_the_latest_alone_counts_where_the_latest_is_asked_for() -> None:
    played = Played()
    played.ids("s", ONE, TWO)
    assert played.registered("s", {"schema": ONE, "version": -1}) is None
    assert played.registered("s", {"schema": TWO, "version": -1})["version"] == 2
    # An old schema is then registered as a new version, with its own number in its metadata.
    again = played.put("s", ONE, version=-1)
    assert (again["version"], again["metadata"]) == (3, {"properties": {"confluent:version": "3"}})
    assert again["id"] == 3


def test_versions_are_never_used_twice_while_one_of_them_is_known() -> None:
    played = Played()
    played.ids("s", ONE, TWO)
    played.do(played.delete_version("s", "2"))
    assert played.put("s", THREE)["version"] == 3
    played.do(played.delete_subject("s"))
    assert played.put("s", THREE)["version"] == 4
    assert played.versions("s", deleted=True) == [1, 2, 4], "the deleted version of the same id made room"
    played.do(played.delete_subject("s"))
    played.do(played.delete_subject("s", permanent=True))
    assert played.put("s", THREE) == {**played.put("s", THREE), "version": 1, "id": 4}


def test_a_deleted_version_that_others_refer_to_does_not_make_room() -> None:
    played = Played()
    played.put("s", record("x:int", name="S"))
    refers = [{"name": "S", "subject": "s", "version": 1}]
    played.put("r", record("s:S"), references=refers)
    played.do(played.delete_version("r", "1"))
    played.do(played.delete_version("s", "1"))
    assert played.put("s", record("x:int", name="S"))["version"] == 2
    assert played.versions("s", deleted=True) == [1, 2]


@pytest.mark.parametrize("normalize", ["asked", "configured", "not"])
def test_normalized_schemas_are_one(normalize: str) -> None:
    played = Played()
    if normalize == "configured":
        played.do(played.set_config(None, {"normalize": True}))
    is_asked = normalize == "asked"

    def put(text: str) -> int:
        answer = played.do(played.register("s", {"schema": text, "schemaType": "JSON"}, normalize=is_asked))
        return answer["id"]

    one, other = '{"title":"t","type":"object"}', '{"type":"object","title":"t"}'
    assert (put(one) == put(other)) == (normalize != "not")
    found = played.lookup("s", {"schema": other, "schemaType": "JSON"}, normalize=is_asked)
    assert found["version"] == (2 if normalize == "not" else 1)


def test_what_is_not_compatible_is_refused_with_the_version_that_forbids_it() -> None:
    played = Played()
    played.put("s", ONE)
    with refused(40901, 'incompatible with an earlier schema for subject "s", details: [{errorType:'):
        played.register("s", {"schema": STRING})
    for part in ("{oldSchemaVersion: 1}", "{validateFields: 'false', compatibility: 'BACKWARD'}]"):
        with refused(40901, part):
            played.register("s", {"schema": STRING})
    assert played.do(played.register("s", {"schema": STRING}, force=True))["version"] == 2


def test_versions_that_are_asked_for_are_the_next_ones() -> None:
    played = Played()
    assert played.put("s", ONE, version=1)["version"] == 1
    with refused(42201, "Version is not one more than previous version"):
        played.register("s", {"schema": TWO, "version": 3})
    assert played.put("s", TWO, version=2)["metadata"] == {"properties": {"confluent:version": "2"}}


def test_an_empty_schema_is_the_one_before_with_another_contract() -> None:
    played = Played()
    with refused(42201, "Empty schema"):
        played.register("s", {"schema": "  "})
    played.put("s", '{"type":"object"}', schemaType="JSON")
    again = played.do(played.register("s", {"metadata": {"properties": {"a": "1"}}}))
    assert (again["version"], again["id"], again["schemaType"]) == (2, 2, "JSON")
    assert again["schema"] == '{"type":"object"}'


# Explicit ids.


def test_ids_are_given_in_import_mode_alone() -> None:
    played = Played()
    with refused(42205, "Subject s in context  is not in import mode"):
        played.register("s", {"schema": ONE, "id": 7, "version": 3})
    played.do(played.set_mode("s", {"mode": "IMPORT"}))
    with refused(42205, "Subject s in context  is not in read-write mode"):
        played.register("s", {"schema": ONE})
    assert played.put("s", ONE, id=7, version=3)["id"] == 7
    assert played.put("s", STRING, id=9, version=2)["version"] == 2, "nothing is checked against the others"
    assert played.versions("s") == [2, 3]
    assert played.put("s", INT, id=4)["version"] == 4, "without a version it is the next"
    played.do(played.delete_mode("s"))
    assert played.ids("t", record("z:int")) == [10], "ids go on after the greatest"


def test_an_id_stands_for_one_schema() -> None:
    played = Played()
    played.do(played.set_mode(None, {"mode": "IMPORT"}))
    played.put("s", ONE, id=7)
    with refused(42205, "Overwrite new schema with id 7 in context  is not permitted."):
        played.register("t", {"schema": STRING, "id": 7})
    with refused(42205, "Overwrite new schema with id 7"):
        played.register("t", {"schema": ONE, "id": 7, "metadata": {"properties": {"a": "1"}}})
    assert played.put("t", ONE, id=7)["version"] == 1
    played.do(played.set_mode(":.c:", {"mode": "IMPORT"}))
    played.put(":.c:s", STRING, id=7)
    with refused(42205, "id 7 in context :.c: is"):
        played.register(":.c:t", {"schema": INT, "id": 7})


def test_the_same_schema_may_be_imported_under_several_ids_and_versions() -> None:
    played = Played()
    played.do(played.set_mode("s", {"mode": "IMPORT"}))
    played.put("s", ONE, id=5, version=1)
    played.put("s", ONE, id=8, version=4)
    played.put("s", ONE, id=8, version=6)
    assert played.register("s", {"schema": ONE, "id": 8, "version": 4}).records == ()
    assert played.schema_by_id(5)["version"] == 1
    assert played.versions_of_id(8) == [{"subject": "s", "version": 6}]
    played.do(played.delete_version("s", "6"))
    assert played.versions_of_id(8) == [{"subject": "s", "version": 4}]


def test_a_version_may_be_imported_again_as_another_schema() -> None:
    played = Played()
    played.do(played.set_mode("s", {"mode": "IMPORT"}))
    played.put("s", ONE, id=5, version=1)
    played.put("s", TWO, id=6, version=1)
    assert played.versions("s") == [1]
    with refused(40403, "Schema 5 not found"):
        played.schema_by_id(5)


def test_imported_schemas_are_not_looked_into_for_what_new_ones_need() -> None:
    bad_default = record("a:int", default="text")
    played = Played()
    with refused(42201, "Invalid schema of type AVRO, details: "):
        played.register("s", {"schema": bad_default})
    played.do(played.set_config("s", {"validateNewSchemas": False}))
    assert played.put("s", bad_default)["id"] == 1
    played.do(played.set_mode("t", {"mode": "IMPORT"}))
    assert played.put("t", bad_default, id=1)["id"] == 1


def test_ids_that_records_took_are_not_given_again() -> None:
    played = Played()
    far = records.schema_record(SchemaValue("s", 1, 41, STRING))
    played.write(far)
    assert played.ids("t", INT) == [42]
    played.write(records.tombstone(SchemaKey("t", 1)))
    assert played.ids("t", ONE) == [43]
    assert (played.greatest_id(), played.greatest_id(".c")) == (43, 0)


# Invalid names, and texts that are no schema.


@pytest.mark.parametrize("subject", ["a\nb", "\x7f", "__GLOBAL", ":.c:__EMPTY", ":.__GLOBAL:s"])
def test_subjects_that_may_not_be(subject: str) -> None:
    with refused(42208, f"The specified subject '{subject}' is not a valid."):
        Played().register(subject, {"schema": STRING})


def test_an_empty_subject_may_be_refused() -> None:
    assert Played().put("", STRING)["id"] == 1
    for subject in ("", "*", ":.c:"):
        with refused(42208):
            Played(Settings(rejects_empty_subject=True)).register(subject, {"schema": STRING})


def test_a_schema_of_ten_megabytes_is_too_large() -> None:
    big = record("a:int", name="R" * 10_000_000)
    with refused(42209, "Register operation failed because schema is too large"):
        Played().register("s", {"schema": big})
    with refused(42201, "bytes, expected at most 1048576"):
        Played().lookup("s", {"schema": big})


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"schema": "{"}, 42201, "Invalid schema of type AVRO, details: "),
        ({"schema": STRING, "schemaType": "THRIFT"}, 42201, "Invalid schema type THRIFT"),
        ({"schema": ["x"]}, 400, "the request.schema: expected a string, found ['x']"),
        ({"schema": STRING, "version": "last"}, 400, "the request.version: expected a number, found 'last'"),
        ({"schema": STRING, "id": 1 << 31}, 400, "a 32-bit number"),
        ({"schema": STRING, "references": "x"}, 400, "the request.references: expected an array"),
        ({"schema": STRING, "references": [{"name": "n"}]}, 42201, 'Invalid reference: {"name": "n"}'),
        ({"schema": STRING, "metadata": []}, 400, "metadata: expected an object"),
        ({"schema": STRING, "metadata": {"tags": {"a": "b"}}}, 400, "metadata.tags: expected an array"),
        ([], 400, "the request: expected an object, found []"),
        ({"schema": STRING, "schemaTagsToAdd": [{}]}, 42201, "schemaTagsToAdd is not supported"),
        ({"schema": STRING, "metadata": {"properties": {"\ud800": "a"}}}, 400, "half surrogate pairs"),
        ({"schema": STRING, "ruleSet": {"domainRules": [{"name": "\udfff"}]}}, 400, "half surrogate"),
        ({"schema": '"\ud800"'}, 400, "the request.schema: expected text without half surrogate pairs"),
    ],
)
def test_requests_that_say_nothing_that_can_be_registered(body: object, code: int, message: str) -> None:
    with refused(code, message):
        Played().register("s", body)
