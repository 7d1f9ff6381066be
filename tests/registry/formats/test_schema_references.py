"""References between registered schemas: a function resolves them, recursively and no further than needed."""

import base64
import hashlib

import pytest
from google.protobuf import descriptor_pb2

from penstock.registry.formats import Reference, SchemaError, parse
from penstock.registry.formats.errors import ReferenceCycle, UnknownReference
from penstock.registry.formats.references import Found


def finder(**registered: Found):
    """A function that finds schemas by subject; every version is the same."""
    return lambda reference: registered.get(reference.subject)


ADDRESS = '{"type":"record","name":"n.Address","fields":[{"name":"city","type":"n.City"}]}'
CITY = '{"type":"enum","name":"n.City","symbols":["ULM"]}'


def test_avro_names_are_defined_by_references() -> None:
    to_city = Reference("n.City", "city", 3)
    find = finder(address=Found(ADDRESS, (to_city,)), city=Found(CITY))
    text = '{"type":"record","name":"n.Person","fields":[{"name":"home","type":"Address"}]}'
    schema = parse("AVRO", text, [Reference("n.Address", "address", 1)], find)
    person = '{"type":"record","name":"Person","namespace":"n","fields":[{"name":"home","type":'
    assert schema.canonical() == f'{person}"Address"}}]}}'
    assert schema.formatted("resolved") == (
        f'{person}{{"type":"record","name":"Address","fields":[{{"name":"city","type":{{"type":"enum",'
        f'"name":"City","symbols":["ULM"]}}}}]}}}}]}}'
    )
    # A schema with its references inlined has the same identity.
    assert parse("AVRO", schema.formatted("resolved")).identity() == schema.identity()
    assert not parse("AVRO", schema.formatted("resolved")).incompatibilities(schema)


def test_the_fingerprint_is_confluents() -> None:
    schema = parse("AVRO", '"n.City"', [Reference("n.City", "city", 3)], finder(city=Found(CITY)))
    stored = b'"n.City"' + b"n.Citycity" + bytes([0, 0, 0, 3])
    assert schema.fingerprint() == hashlib.md5(stored).digest()
    assert schema.guid().replace("-", "") == hashlib.md5(stored).hexdigest()


def test_json_schemas_refer_by_name() -> None:
    find = finder(a=Found('{"definitions":{"n":{"type":"integer"}}}'))
    reference = Reference("a.json", "a", 1)
    schema = parse("JSON", '{"properties":{"x":{"$ref":"a.json#/definitions/n"}}}', [reference], find)
    wider = parse("JSON", '{"properties":{"x":{"type":"number"}}}')
    assert not wider.incompatibilities(schema)
    assert [each.path for each in schema.incompatibilities(wider)] == ["#/properties/x"]


@pytest.mark.parametrize("name", ["b.json", "./b.json", "http://example.com/dir/b.json"])
def test_json_names_are_relative_to_the_id(name: str) -> None:
    text = '{"$id":"http://example.com/dir/a.json","properties":{"x":{"$ref":"b.json"}}}'
    schema = parse("JSON", text, [Reference(name, "b", 1)], finder(b=Found('{"type":"null"}')))
    assert schema.incompatibilities(parse("JSON", '{"properties":{"x":{"type":"string"}}}'))


def test_protobuf_imports_are_references() -> None:
    find = finder(city=Found('syntax = "proto3"; package n; message City { string name = 1; }'))
    text = 'syntax = "proto3"; package n; import "city.proto"; message Person { City city = 1; }'
    schema = parse("PROTOBUF", text, [Reference("city.proto", "city", 1)], find)
    assert ".n.City city = 1;" in schema.normalized().canonical()
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized")))
    assert file.dependency == ["city.proto"]
    assert file.message_type[0].field[0].type_name == ".n.City"


def test_another_version_of_an_import_is_compared() -> None:
    text = 'syntax = "proto3"; import "city.proto"; message Person { City city = 1; }'
    versions = {
        1: Found('syntax = "proto3"; message City { string name = 1; }'),
        2: Found('syntax = "proto3"; message City { int32 name = 1; }'),
    }
    old, new = (
        parse("PROTOBUF", text, [Reference("city.proto", "city", number)], finder(city=version))
        for number, version in versions.items()
    )
    found = [(each.kind, each.path) for each in new.incompatibilities(old)]
    assert found == [("FIELD_SCALAR_KIND_CHANGED", "#/City/1"), ("FIELD_NAMED_TYPE_CHANGED", "#/Person/1")]


@pytest.mark.parametrize("name", ["AVRO", "JSON", "PROTOBUF"])
def test_unknown_references_are_named(name: str) -> None:
    with pytest.raises(UnknownReference, match=r"'x\.y': subject 'gone', version 4"):
        parse(name, "{}", [Reference("x.y", "gone", 4)], finder())


def test_cycles_are_told_with_all_their_members() -> None:
    find = finder(
        a=Found('"int"', (Reference("b", "b", 1),)),
        b=Found('"int"', (Reference("c", "c", 2),)),
        c=Found('"int"', (Reference("b", "b", 1),)),
    )
    with pytest.raises(ReferenceCycle, match=r"'b' .*version 1\) → 'c' .*version 2\) → 'b' "):
        parse("AVRO", '"int"', [Reference("a", "a", 1)], find)


def test_what_two_schemas_refer_to_is_no_cycle() -> None:
    shared = Reference("c", "c", 1)
    find = finder(a=Found('"int"', (shared,)), b=Found('"int"', (shared,)), c=Found('"int"'))
    schema = parse("AVRO", '"int"', [Reference("a", "a", 1), Reference("b", "b", 1), shared], find)
    assert list(schema.resolved) == ["c", "a", "b"]


def test_a_chain_of_a_thousand_schemas_is_too_long() -> None:
    def find(reference: Reference) -> Found:
        return Found('"int"', (Reference(f"{reference.version + 1}", "next", reference.version + 1),))

    with pytest.raises(SchemaError, match="more than 1000 others"):
        parse("AVRO", '"int"', [Reference("0", "next", 0)], find)


def test_an_error_in_a_reference_names_it() -> None:
    find = finder(a=Found('{"type":"record","name":"1","fields":[]}'))
    with pytest.raises(SchemaError, match="in the reference 'a': at /name"):
        parse("AVRO", '"int"', [Reference("a", "a", 1)], find)


def test_a_definition_may_come_again_if_it_says_the_same() -> None:
    reference = Reference("n.City", "city", 1)
    again = f'{{"type":"record","name":"R","fields":[{{"name":"c","type":{CITY}}}]}}'
    parse("AVRO", again, [reference], finder(city=Found(CITY)))
    with pytest.raises(SchemaError, match=r"'n\.City' is defined twice, in different ways"):
        parse("AVRO", again.replace("ULM", "BONN"), [reference], finder(city=Found(CITY)))
