"""Records compared with the bytes that Jackson writes of Confluent's classes (schema registry 8.5)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from played import Played, shown

from penstock.registry.formats import Reference
from penstock.registry.subjects import Registry, records
from penstock.registry.subjects.configs import Config
from penstock.registry.subjects.contracts import Metadata, RuleSet
from penstock.registry.subjects.records import ContextKey, SchemaKey, SchemaValue, SubjectKey

RULES = {
    "domainRules": [
        {
            "name": "r",
            "doc": "d",
            "kind": "CONDITION",
            "mode": "WRITE",
            "type": "CEL",
            "tags": ["b", "a"],
            "params": {"y": "1", "x": "2"},
            "expr": "e",
            "onSuccess": "NONE",
            "onFailure": "DLQ",
            "disabled": False,
        },
        {"name": "q", "type": "CEL", "disabled": True},
    ],
    "migrationRules": [{"name": "m", "kind": "TRANSFORM", "mode": "UPGRADE", "type": "J"}],
    "enableAt": "CLIENT",
}
METADATA = {"properties": {"b": "1", "a": "2"}, "tags": {"t": ["z", "y"]}, "sensitive": ["b", "a"]}
RULES_TEXT = (
    '{"migrationRules":[{"name":"m","kind":"TRANSFORM","mode":"UPGRADE","type":"J","disabled":false}],'
    '"domainRules":[{"name":"r","doc":"d","kind":"CONDITION","mode":"WRITE","type":"CEL","tags":["a","b"],'
    '"params":{"x":"2","y":"1"},"expr":"e","onSuccess":"NONE","onFailure":"DLQ","disabled":false},'
    '{"name":"q","kind":"TRANSFORM","mode":"WRITEREAD","type":"CEL","disabled":true}],"enableAt":"CLIENT"}'
)
TEXT = '{"é/\\u2028":"<&>\x7f\U0001f600"}'
PLAIN = SchemaValue("s", 1, 7, '"string"')
FULL = SchemaValue(
    *("s", 1, 7, TEXT, "JSON"),
    references=(Reference("n", "x", 2),),
    metadata=Metadata.read(METADATA),
    rule_set=RuleSet.read(RULES),
)
CONFIG = {
    "overrideRuleSet": None,
    "defaultMetadata": {"properties": {"a": "1"}},
    "compatibilityGroup": "g",
    "compatibility": "full",
    "normalize": True,
    "validateFields": False,
    "alias": "",
    "aliasForDeks": "k",
    "compatibilityPolicy": "lenient",
    "validateRules": True,
    "validateNewSchemas": True,
    "defaultRuleSet": {"encodingRules": [{"name": "m", "kind": "TRANSFORM", "mode": "WRITE", "type": "J"}]},
}
CONFIG_FIELDS = (
    '"aliasForDeks":"k","normalize":true,"validateFields":false,"validateNewSchemas":true,'
    '"validateRules":true,"compatibilityLevel":"FULL","compatibilityPolicy":"LENIENT",'
    '"compatibilityGroup":"g","defaultMetadata":{"properties":{"a":"1"}},"defaultRuleSet":{"encodingRules":'
    '[{"name":"m","kind":"TRANSFORM","mode":"WRITE","type":"J","disabled":false}]}}'
)


@pytest.mark.parametrize(
    ("written", "key", "value"),
    [
        (
            records.schema_record(PLAIN),
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            '{"subject":"s","version":1,"id":7,"schemaType":"AVRO","schema":"\\"string\\"","deleted":false}',
        ),
        (
            records.schema_record(FULL),
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            '{"subject":"s","version":1,"id":7,"schemaType":"JSON",'
            '"references":[{"name":"n","subject":"x","version":2}],'
            '"metadata":{"tags":{"t":["y","z"]},"properties":{"a":"2","b":"1"},"sensitive":["a","b"]},'
            f'"ruleSet":{RULES_TEXT},"schema":"{{\\"é/\\\\u2028\\":\\"<&>\x7f\U0001f600\\"}}",'
            '"deleted":false}',
        ),
        (
            records.config_record("s", Config().updated(CONFIG)),
            '{"keytype":"CONFIG","subject":"s","magic":0}',
            '{"subject":"s",' + CONFIG_FIELDS,
        ),
        (records.config_record(None, Config()), '{"keytype":"CONFIG","magic":0}', "{}"),
        (records.mode_record(None, "IMPORT"), '{"keytype":"MODE","magic":0}', '{"mode":"IMPORT"}'),
        (
            records.mode_record("s", "IMPORT"),
            '{"keytype":"MODE","subject":"s","magic":0}',
            '{"subject":"s","mode":"IMPORT"}',
        ),
        (
            records.delete_subject_record("s", 2),
            '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
            '{"subject":"s","version":2}',
        ),
        (
            records.clear_subject_record("s"),
            '{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}',
            '{"subject":"s"}',
        ),
        (records.clear_subject_record(None), '{"keytype":"CLEAR_SUBJECT","magic":0}', "{}"),
        (
            records.context_record(".c"),
            '{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}',
            '{"tenant":"default","context":".c"}',
        ),
        (records.noop_record(), '{"keytype":"NOOP","magic":0}', None),
        (
            records.tombstone(SchemaKey("s", 1)),
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            None,
        ),
    ],
)
def test_bytes_as_confluent_writes_them(written: records.Record, key: str, value: str | None) -> None:
    assert written.key.decode() == key
    assert (written.value.decode() if written.value is not None else None) == value


def test_fingerprints_are_confluents() -> None:
    assert PLAIN.guid == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"
    # The flag of a disabled rule and empty metadata are part of the hash.
    assert FULL.guid == "91b89732-b498-12c2-30b3-6905020b2eaf"
    empty = SchemaValue(
        *("s", 1, 7, TEXT, "JSON", FULL.references), metadata=Metadata(), rule_set=FULL.rule_set
    )
    assert empty.guid == "25b2d7fc-fa77-5630-7fb7-8435620a4cb3"
    assert b'"metadata":{},' in (records.schema_record(empty).value or b"")


def test_what_was_written_is_read_back() -> None:
    for value in (PLAIN, FULL):
        written = records.schema_record(value)
        key = records.read_key(written.key)
        assert key == value.key
        assert records.read_schema(value.key, written.value or b"", None) == value
    config = records.config_record("s", Config().updated({**CONFIG, "alias": "t"}))
    assert records.read_config(config.value or b"") == Config().updated({**CONFIG, "alias": "t"})
    assert records.read_key(records.context_record(".c").key) == ContextKey(".c")
    assert records.read_key(records.tombstone(SubjectKey("MODE", None)).key) == SubjectKey("MODE", None)


def test_records_of_other_versions_are_read() -> None:
    played = Played()

    def write(key: object, value: object) -> str | None:
        return played.replay(json.dumps(key).encode(), json.dumps(value).encode())

    # Records from before formats, references and magic byte 1, with blanks and fields in any order; then from
    # the future.
    assert (
        write(
            {"magic": 0, "subject": "s", "keytype": "SCHEMA", "version": 1},
            {"subject": "s", "version": 1, "id": 3, "schema": '"string"'},
        )
        is None
    )
    assert (
        write(
            {"keytype": "SCHEMA", "subject": "s", "version": 2, "magic": 1, "new": {}},
            {
                "subject": "s",
                "version": 2,
                "id": 4,
                "schema": '"int"',
                "deleted": True,
                "offset": 1,
                "zz": [1],
            },
        )
        is None
    )
    assert write({"keytype": "CONFIG", "magic": 0, "subject": None}, {"compatibilityLevel": "FULL"}) is None
    assert write({"keytype": "CONFIG", "magic": 0, "subject": "s"}, {"compatibilityLevel": "NEW"}) is None
    assert write({"keytype": "MODE", "magic": 0, "subject": "s"}, {"mode": "READONLY"}) is None
    assert write({"keytype": "NOOP", "magic": 0}, None) is None
    assert write({"keytype": "ASSOC", "magic": 0}, {"subject": "s"}) is None
    assert played.versions("s", deleted=True) == [1, 2]
    assert played.version("s", "1")["schemaType"] == "AVRO"
    assert played.config(None) == {"compatibilityLevel": "FULL"}
    assert played.config("s") == {"compatibilityLevel": "BACKWARD"}
    assert played.mode("s") == {"mode": "READONLY"}


def test_sensitive_properties_that_are_enciphered_keep_the_fingerprint_of_the_plain_ones() -> None:
    value = (
        b'{"subject":"s","version":1,"id":1,"md5":"CV1xzxJVa51eMwrVdbPfXQ==","schema":"\\"string\\"",'
        b'"metadata":{"properties":{"__enc__":"true","a":"x"},"sensitive":["a"]},"deleted":false}'
    )
    played = Played()
    played.write(records.Record(schema_key("s", 1), value))
    assert played.ids_of_guid("095d71cf-1255-6b9d-5e33-0ad575b3df5d") == [{"context": ".", "id": 1}]
    assert records.schema_record(records.read_schema(SchemaKey("s", 1), value, None)).value.startswith(
        b'{"subject":"s","version":1,"id":1,"md5":"CV1xzxJVa51eMwrVdbPfXQ==","schemaType":"AVRO",'
    )


def schema_key(subject: str, version: int) -> bytes:
    return records.tombstone(SchemaKey(subject, version)).key


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"{}", "not JSON"),
        (b"", b"{}", "not JSON"),
        (b"\xff", b"{}", "not JSON"),
        (b"[]", b"{}", "expected an object"),
        (b'{"keytype":"OTHER"}', b"{}", "unknown keytype 'OTHER'"),
        (b'{"keytype":"SCHEMA","magic":2,"subject":"s","version":1}', b"{}", "magic byte 2"),
        (b'{"keytype":"SCHEMA","magic":1,"subject":"s"}', b"{}", "needs a subject and a version"),
        (schema_key("s", 0), b"{}", "needs a subject and a version of at least 1"),
        (schema_key("s", 1), b"{}", "needs an id and a text"),
        (schema_key("s", 1), b"nonsense", "not JSON"),
        (schema_key("s", 1), b"[" * 100_000, "not JSON"),
        (schema_key("s", 1), b'{"id":1,"schema":"x","md5":"!"}', "not base64"),
        (schema_key("s", 1), b'{"id":1,"schema":"x","md5":"AAAA"}', "3 bytes, expected 16"),
        (schema_key("s", 1), b'{"id":1,"schema":"x","metadata":7}', "value.metadata: expected an object"),
        (schema_key("s", 1), b'{"id":99999999999,"schema":"x"}', "a 32-bit number"),
        (b'{"keytype":"MODE"}', b"{}", "a mode is missing"),
        (b'{"keytype":"MODE"}', b'{"mode":"SOME"}', "expected one of READWRITE"),
        (b'{"keytype":"CONFIG"}', b'{"normalize":"maybe"}', "expected true or false"),
    ],
)
def test_a_record_that_cannot_be_read_is_left_out_and_told(
    key: bytes | None, value: bytes, reason: str
) -> None:
    registry = Registry()
    before = shown(registry)
    assert reason in (registry.replay(key, value) or "")
    assert shown(registry) == before


def test_an_id_that_is_another_schemas_is_left_out() -> None:
    played = Played()
    played.put("s", '"string"')
    thief = records.schema_record(SchemaValue("t", 1, 1, '"int"'))
    assert "the id 1 belongs to another schema" in (played.replay(thief.key, thief.value) or "")
    assert played.subjects() == ["s"]


def test_answers_as_confluent_writes_them() -> None:
    played = Played()
    written = records.schema_record(replace(FULL, deleted=True))
    played.replay(written.key, written.value, timestamp_ms=5)
    played.do(played.set_config("al", {"alias": "s"}))
    parts = {
        "guid": "91b89732-b498-12c2-30b3-6905020b2eaf",
        "references": '[{"name":"n","subject":"x","version":2}]',
        "metadata": '{"tags":{"t":["y","z"]},"properties":{"a":"2","b":"1"},"sensitive":["a","b"]}',
        "schema": json.dumps(TEXT, ensure_ascii=False),
    }
    type_to_metadata = '"schemaType":"JSON","references":{references},"metadata":{metadata},'
    whole = (
        '{"subject":"s","version":1,"id":7,"guid":"{guid}",' + type_to_metadata + '"schema":{schema},'
        '"ts":5,"deleted":true,"ruleSet":' + RULES_TEXT + "}"
    )
    by_id = (
        '{"subject":"s","version":1,"guid":"{guid}","schemaType":"JSON","schema":{schema},'
        '"references":{references},"metadata":{metadata},"ruleSet":' + RULES_TEXT + ',"ts":5,"deleted":true}'
    )
    for name, part in parts.items():
        whole, by_id = whole.replace(f"{{{name}}}", part), by_id.replace(f"{{{name}}}", part)
    assert written_as(played.version("s", "1", deleted=True)) == whole
    assert written_as(played.schema_by_id(7)) == by_id
    listed = played.schemas(deleted=True, aliases=True)[0]
    assert written_as(listed) == whole.replace(',"ruleSet"', ',"aliases":["al"],"ruleSet"')


def test_the_answer_to_a_registration_as_confluent_writes_it() -> None:
    played = Played()
    answer = played.put("s", '"string"', metadata=METADATA, ruleSet=RULES)
    assert written_as(answer) == (
        f'{{"id":1,"version":1,"guid":"{answer["guid"]}","schemaType":"AVRO",'
        '"metadata":{"tags":{"t":["y","z"]},"properties":{"a":"2","b":"1"},"sensitive":["a","b"]},'
        f'"ruleSet":{RULES_TEXT},"schema":"\\"string\\""}}'
    )
    config = played.do(played.set_config("s", CONFIG))
    assert written_as(config) == '{"alias":"",' + CONFIG_FIELDS.replace("Level", "")
    assert written_as(played.config("s")) == "{" + CONFIG_FIELDS


def written_as(answer: object) -> str:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
