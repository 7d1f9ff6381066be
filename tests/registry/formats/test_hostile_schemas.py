"""Schemas that are large, deep or full of alternatives on purpose.

Each is refused, or handled in reasonable time.
"""

import base64
import json

import pytest
from google.protobuf import descriptor_pb2

from penstock.registry.formats import SCHEMA_BYTES_MAX, Reference, SchemaError, parse
from penstock.registry.formats.errors import ComparisonTooLarge
from penstock.registry.formats.levels import Level, Version, check
from penstock.registry.formats.references import Found

FORMATS = ("AVRO", "JSON", "PROTOBUF")
DEEP = 100_000


@pytest.mark.parametrize("name", FORMATS)
def test_ten_megabytes_are_refused_by_their_size(name: str) -> None:
    with pytest.raises(SchemaError, match=rf"has 10000000 bytes, expected at most {SCHEMA_BYTES_MAX}"):
        parse(name, " " * 10_000_000)


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_text_is_no_schema(name: str) -> None:
    with pytest.raises(SchemaError, match="the schema is empty"):
        parse(name, " \n")


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(
        SchemaError, match="schema type 'XML' is not supported, expected one of AVRO, JSON, PROTOBUF"
    ):
        parse("XML", "<a/>")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("AVRO", "[" * DEEP),
        ("AVRO", '{"type":"array","items":' * DEEP + '"int"' + "}" * DEEP),
        ("JSON", '{"not":' * DEEP + "{}" + "}" * DEEP),
        ("JSON", '{"enum":' + "[" * DEEP + "]" * DEEP + "}"),
        ("PROTOBUF", "message M {" * DEEP + "}" * DEEP),
        ("PROTOBUF", "option a = " + "{a: " * DEEP + "1" + "}" * DEEP + ";"),
        ("PROTOBUF", "option a = " + "[" * DEEP + "]" * DEEP + ";"),
    ],
)
def test_deep_nesting_is_refused(name: str, text: str) -> None:
    with pytest.raises(SchemaError, match="nested too deeply"):
        parse(name, text, bytes_max=10_000_000)


@pytest.mark.parametrize("levels", [10, 60])
def test_what_people_nest_is_taken(levels: int) -> None:
    array = '{"type":"array","items":' * levels + '"int"' + "}" * levels
    wide = array.replace("int", "long")
    assert not parse("AVRO", wide).incompatibilities(parse("AVRO", array))
    nested = '{"type":"array","items":' * levels + "{}" + "}" * levels
    assert not parse("JSON", nested).normalized().incompatibilities(parse("JSON", nested))
    messages = "".join(f"message M{i} {{" for i in range(levels)) + "}" * levels
    assert not parse("PROTOBUF", messages).normalized().incompatibilities(parse("PROTOBUF", messages))


def test_nesting_by_names_is_told_too() -> None:
    definitions = {
        f"d{i}": {"properties": {"next": {"$ref": f"#/definitions/d{i + 1}"}}} for i in range(5_000)
    }
    definitions["d5000"] = {"type": "string"}
    with pytest.raises(SchemaError, match="nested too deeply"):
        parse("JSON", json.dumps({"definitions": definitions, "$ref": "#/definitions/d0"}))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("AVRO", '"' + '\\"' * 400_000),
        ("JSON", '{"a":"' + '\\"' * 400_000),
        ("JSON", "{" + '"a":1,' * 100_000 + '"a":1}'),
        ("JSON", '{"maximum":' + "9" * 500_000 + "}"),
        ("JSON", '{"maximum":1e999999999}'),
        ("JSON", '{"multipleOf":1e-999999999}'),
        ("PROTOBUF", '"' + '\\"' * 400_000),
        ("PROTOBUF", "/*" * 400_000),
        ("PROTOBUF", "message M { string a = " + "9" * 500_000 + "; }"),
        ("AVRO", "{" * 500_000),
        ("AVRO", '"\ud800"'),
        ("PROTOBUF", "A" * 800_000),
        ("AVRO", '{"type":"fixed","name":"F","size":' + "9" * 900 + "}"),
    ],
)
def test_texts_that_cost_time_or_memory_are_refused(name: str, text: str) -> None:
    with pytest.raises(SchemaError):
        parse(name, text)


def test_large_schemas_of_every_kind_are_taken() -> None:
    """The schemas are flat, and a quarter of the size limit."""
    fields = ",".join(f'{{"name":"field_{i}","type":["null","string"],"default":null}}' for i in range(4_000))
    properties = ",".join(f'"property_{i}":{{"type":"string","maxLength":{i}}}' for i in range(5_000))
    lines = "".join(f"  repeated string field_{i} = {i + 20_000};\n" for i in range(6_500))
    for name, text in (
        ("AVRO", f'{{"type":"record","name":"R","fields":[{fields}]}}'),
        ("JSON", f'{{"type":"object","properties":{{{properties}}}}}'),
        ("PROTOBUF", f'syntax = "proto3";\nmessage M {{\n{lines}}}\n'),
    ):
        assert 0.2 < len(text) / SCHEMA_BYTES_MAX < 1
        schema = parse(name, text)
        assert schema.normalized().canonical()
        assert check(Level.FULL, schema, [Version(1, parse(name, text))]) == []


def test_a_product_of_alternatives_is_cut_off() -> None:
    def of(letter: str) -> str:
        return json.dumps({"anyOf": [{"const": f"{letter}{i}"} for i in range(350)]})

    with pytest.raises(ComparisonTooLarge, match="pairs of schemas to compare"):
        check(Level.BACKWARD, parse("JSON", of("a")), [Version(1, parse("JSON", of("b")))])


def avro_union(names: int, *, of: str = "int", spaced: bool = False, reverse: bool = False) -> str:
    """A field of many records; ``spaced``: all of one name, each in a namespace of its own."""
    field = {"name": "a", "type": of}
    records = [
        {"type": "record", "name": "N" if spaced else f"N{i}", "namespace": f"s{i}", "fields": [field]}
        for i in range(names)
    ]
    if reverse:
        records.reverse()
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "u", "type": records}]})


def test_a_union_of_thousands_of_records_is_held_against_another_by_their_names() -> None:
    old, new = parse("AVRO", avro_union(3_000)), parse("AVRO", avro_union(3_000, of="long", reverse=True))
    assert check(Level.BACKWARD, new, [Version(1, old)]) == []
    found = old.incompatibilities(new)
    assert {each.kind for each in found} == {"MISSING_UNION_BRANCH"}
    assert len(found) == 1_000


def test_thousands_of_records_of_one_name_are_cut_off() -> None:
    old, new = (parse("AVRO", avro_union(600, of=each, spaced=True)) for each in ("long", "string"))
    with pytest.raises(ComparisonTooLarge, match="pairs of types to compare"):
        check(Level.BACKWARD, new, [Version(1, old)])


def test_a_branch_is_found_by_its_alias_or_by_what_it_takes_beside_itself() -> None:
    old = '{"type": "fixed", "name": "F", "namespace": "a", "size": 2}'
    new = {"type": "fixed", "name": "G", "namespace": "b", "size": 2, "aliases": ["a.F"]}
    union = json.dumps(["null", "double", new, "bytes"])
    for writer in (old, '"int"', '"float"', '"string"', '["bytes", "long", "null"]'):
        assert not parse("AVRO", union).incompatibilities(parse("AVRO", writer)), writer
    assert parse("AVRO", union).incompatibilities(parse("AVRO", '"boolean"'))


def test_recursive_alternatives_end() -> None:
    """Each definition has all others as alternatives, so a tree of comparisons would be infinite."""
    names = [f"n{i}" for i in range(15)]
    definitions = {
        name: {"oneOf": [{"properties": {other: {"$ref": f"#/definitions/{other}"}}} for other in names]}
        for name in names
    }
    text = json.dumps({"definitions": definitions, "$ref": "#/definitions/n0"})
    assert check(Level.FULL, parse("JSON", text), [Version(1, parse("JSON", text))]) == []


def test_a_definition_that_leads_to_itself_alone_is_refused() -> None:
    definitions = {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}
    text = json.dumps({"definitions": definitions, "$ref": "#/definitions/a"})
    with pytest.raises(SchemaError, match="refers to itself"):
        parse("JSON", text).incompatibilities(parse("JSON", "{}"))


LONG = "a" * 300_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("AVRO", f'{{"type":"fixed","name":"F","size":1,"namespace":"{LONG}"}}'),
        ("AVRO", f'{{"type":"fixed","name":"{LONG}","size":1}}'),
        ("PROTOBUF", f"package {'a.' * 200_000}a;"),
        ("PROTOBUF", f"message {LONG} {{}}"),
    ],
)
def test_long_names_are_refused(name: str, text: str) -> None:
    """They would be repeated for each type inside."""
    with pytest.raises(SchemaError, match="of at most 1000 characters"):
        parse(name, text)


def test_types_that_are_used_twice_by_each_other_are_told_once() -> None:
    def avro(of: str) -> str:
        types = [
            f'{{"name":"x","type":{{"type":"record","name":"R0","fields":[{{"name":"v","type":"{of}"}}]}}}}'
        ]
        for i in range(1, 60):
            used = f'[{{"name":"a","type":"R{i - 1}"}},{{"name":"b","type":"R{i - 1}"}}]'
            types.append(f'{{"name":"x{i}","type":{{"type":"record","name":"R{i}","fields":{used}}}}}')
        return f'{{"type":"record","name":"Top","fields":[{",".join(types)}]}}'

    found = parse("AVRO", avro("string")).incompatibilities(parse("AVRO", avro("int")))
    assert {(each.kind, each.path) for each in found} == {("TYPE_MISMATCH", "/fields/0/type/fields/0/type")}

    def imported(of: str) -> Found:
        uses = "".join(f"message M{i} {{ M{i - 1} a = 1; M{i - 1} b = 2; }}\n" for i in range(1, 60))
        return Found(f'syntax = "proto3";\nmessage M0 {{ {of} v = 1; }}\n{uses}')

    text = 'syntax = "proto3"; import "m.proto"; message Top { M59 m = 1; }'
    old, new = (
        parse("PROTOBUF", text, [Reference("m.proto", "m", version)], lambda _, of=of: imported(of))
        for version, of in enumerate(("int32", "string"), 1)
    )
    rules = [each.kind for each in new.incompatibilities(old)]
    assert rules.count("FIELD_SCALAR_KIND_CHANGED") == 1
    assert rules.count("FIELD_NAMED_TYPE_CHANGED") == 2 * 59 + 1


def test_what_doubles_at_each_level_is_cut_off_in_json() -> None:
    def of(kind: str) -> str:
        definitions: dict[str, object] = {"d0": {"type": kind}}
        for i in range(1, 60):
            reference = {"$ref": f"#/definitions/d{i - 1}"}
            definitions[f"d{i}"] = {"properties": {"a": reference, "b": reference}}
        return json.dumps({"definitions": definitions, "$ref": "#/definitions/d59"})

    with pytest.raises(ComparisonTooLarge, match="differ in more than"):
        parse("JSON", of("string")).incompatibilities(parse("JSON", of("null")))


def test_options_that_are_set_many_times_are_merged_in_one_go() -> None:
    options = ", ".join(["(o).b = 1"] * 10_000)
    literal = " ".join(["b: 2"] * 20_000)
    text = f"""
        syntax = "proto2"; import "google/protobuf/descriptor.proto";
        message O {{ repeated int32 b = 1; }}
        extend google.protobuf.FieldOptions {{ optional O o = 50000; }}
        message M {{ optional int32 x = 1 [{options}, (o) = {{ {literal} }}]; }}
    """
    assert parse("PROTOBUF", text).normalized().canonical().count("    1") == 1


@pytest.mark.parametrize("field", ["a b", "a = 1; } message N { string b", "", "a\n", "1", "ä"])
def test_a_descriptor_can_not_smuggle_in_text(field: str) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="proto3")
    file.message_type.add(name="M").field.add(name=field, number=1, type=9, label=1)
    with pytest.raises(SchemaError, match="the descriptor is not a valid Protobuf file: found the name"):
        parse("PROTOBUF", base64.b64encode(file.SerializeToString()).decode())


def test_a_descriptor_with_bytes_for_names_is_refused() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="proto3")
    file.message_type.add(name="Mxyz").field.add(name="a", number=1, type=9, label=1)
    data = file.SerializeToString().replace(b"Mxyz", b"M\xff\xfe\xfd")
    with pytest.raises(SchemaError):
        parse("PROTOBUF", base64.b64encode(data).decode())


def test_messages_stay_short() -> None:
    wide = {"properties": {LONG: {"properties": {f"p{i}": {"type": "string"} for i in range(2_000)}}}}
    old = json.dumps(wide)
    messages = check(
        Level.BACKWARD, parse("JSON", old.replace("string", "null")), [Version(1, parse("JSON", old))]
    )
    assert len(messages) == 1_000 + 2
    assert max(map(len, messages)) < 11_000
