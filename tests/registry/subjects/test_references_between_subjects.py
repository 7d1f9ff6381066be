"""References: which are allowed, and how they are resolved."""

from __future__ import annotations

import json

import pytest
from played import STRING, Played, record, refused

from penstock.registry.formats import Reference
from penstock.registry.subjects import Record, records
from penstock.registry.subjects.records import SchemaValue


def to(subject: str, version: int = 1, name: str = "S") -> list[dict]:
    return [{"name": name, "subject": subject, "version": version}]


def test_the_latest_is_stored_as_the_version_that_it_is() -> None:
    played = Played()
    played.put("s", record("x:int", name="S"))
    first = played.put("r", record("s:S"), references=to("s", -1))
    assert first["references"] == to("s", 1)
    assert played.put("r", record("s:S"), references=to("s", 1)) == first
    played.put("s", record("x:int", "y:int", name="S", default=0))
    second = played.put("r", record("s:S"), references=to("s", -1))
    assert (second["version"], second["references"]) == (2, to("s", 2))
    assert played.referenced_by("s", "2") == [second["id"]]


def test_a_schema_with_its_references_resolved_is_found_again() -> None:
    played = Played()
    played.put("s", record("x:int", name="S"))
    played.put("r", record("s:S"), references=to("s"))
    resolved = played.version("r", "1", format="resolved")["schema"]
    assert "x" in resolved
    assert played.lookup("r", {"schema": resolved})["version"] == 1
    assert played.register("r", {"schema": resolved}).records == ()


def test_subjects_are_of_the_context_of_the_one_that_refers() -> None:
    played = Played()
    for context in ("", ":.c:"):
        played.put(f"{context}deep", record(f"d{len(context)}:int", name="D"))
        played.put(f"{context}s", record("d:D", name="S"), references=to("deep", name="D"))
    played.put("out", record("s:S"), references=to(":.c:s"))
    assert "d4" in played.version("out", "1", format="resolved")["schema"]
    played.put(":.c:in", record("s:S"), references=to("s"))
    assert "d4" in played.version(":.c:in", "1", format="resolved")["schema"]
    assert played.referenced_by(":.c:s", "1") == [3, 3]
    assert played.referenced_by("s", "1") == []


@pytest.mark.parametrize("version", [1, 2, -1, 0, -2])
def test_references_to_what_is_not_there(version: int) -> None:
    with refused(42201, "no schema is registered for the reference 'S': subject 's', version"):
        Played().register("r", {"schema": record("s:S"), "references": to("s", version)})


def test_new_schemas_do_not_refer_to_what_is_deleted() -> None:
    played = Played()
    played.put("s", record("x:int", name="S"))
    played.put("r", record("s:S"), references=to("s"))
    played.do(played.delete_version("r", "1"))
    played.do(played.delete_version("s", "1"))
    with refused(42201, "no schema is registered for the reference 'S'"):
        played.register("q", {"schema": record("s:S"), "references": to("s")})
    assert "x" in played.version("r", "1", deleted=True, format="resolved")["schema"], "old ones still do"


def test_references_that_form_a_circle_are_told() -> None:
    # No registration can make one, but a topic may contain it.
    played = Played()
    for subject, other in (("a", "b"), ("b", "a")):
        text = record(f"f:{other.upper()}", name=subject.upper())
        value = SchemaValue(
            *(subject, 1, {"a": 1, "b": 2}[subject], text),
            references=(Reference(other.upper(), other, 1),),
        )
        played.write(records.schema_record(value))
    with refused(42201, "references form a cycle"):
        played.version("a", "1", format="resolved")
    with refused(42201, "references form a cycle"):
        played.register("r", {"schema": record("a:A"), "references": to("a", name="A")})


def test_a_stored_schema_that_cannot_be_parsed_is_shown_as_it_is() -> None:
    played = Played()
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    played.write(Record(key, json.dumps({"id": 1, "schema": "{", "schemaType": "THRIFT"}).encode()))
    assert played.version("s", "1")["schema"] == "{"
    assert played.schema_by_id(1)["schemaType"] == "THRIFT"
    with refused(42201, "Invalid schema type THRIFT"):
        played.register("s", {"schema": STRING})
    played.do(played.delete_version("s", "1"))
    assert played.put("s", STRING)["version"] == 2


def test_what_a_reference_means_may_change_once_it_is_gone_for_good() -> None:
    played = Played()
    played.do(played.set_mode(None, {"mode": "IMPORT"}))
    played.put("s", record("x:int", name="S"), id=1, version=1)
    played.put("r", record("s:S"), id=2, version=1, references=to("s"))
    assert '"x"' in played.version("r", "1", format="resolved")["schema"]
    played.put("s", record("y:int", name="S"), id=3, version=1)
    assert '"y"' in played.version("r", "1", format="resolved")["schema"]


def test_protobuf_files_and_json_documents_refer_to_each_other_too() -> None:
    played = Played()
    played.put("one", 'syntax = "proto3"; package p; message One { string a = 1; }', schemaType="PROTOBUF")
    two = 'syntax = "proto3"; import "one.proto"; message Two { p.One one = 1; }'
    first = played.put("two", two, schemaType="PROTOBUF", references=to("one", -1, "one.proto"))
    assert first["schema"].startswith('syntax = "proto3";\n\nimport "one.proto";\n')
    assert played.put("two", two, schemaType="PROTOBUF", references=to("one", 1, "one.proto")) == first
    assert len(played.version("two", "1", format="serialized")["schema"]) > 20
    for ask in (played.register, played.lookup, played.compatibility):
        with refused(42201, "Invalid schema of type PROTOBUF, details: "):
            ask("two", {"schema": two, "schemaType": "PROTOBUF"})

    played.put("item", '{"type":"string"}', schemaType="JSON")
    listing = '{"type":"array","items":{"$ref":"item.json"}}'
    played.put("list", listing, schemaType="JSON", references=to("item", name="item.json"))
    wrong = {"schema": '{"type":"array","items":{"type":"number"}}', "schemaType": "JSON"}
    assert not played.compatibility("list", wrong)["is_compatible"]
    assert played.referenced_by("item", "1") == [4]
