"""Verdicts put to the test: the new descriptor parses bytes that were written by the old one."""

import base64
import random

import pytest
from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pool import DescriptorPool
from proto_schema_parser import Parser, ast
from schema_cases import Case, cases

from penstock.registry.formats import Reference, parse
from penstock.registry.formats.protobuf.model import File, Message
from penstock.registry.formats.references import Found

ROUNDS = 250
TYPES = (
    *("int32", "int64", "uint32", "uint64", "bool", "sint32", "sint64", "fixed32", "sfixed32", "fixed64"),
    *("float", "double", "string", "bytes", "E", "N", "map<string, int32>", "map<int32, N>"),
)
HEAD = 'syntax = "proto3";\nenum E { ZERO = 0; ONE = 1; }\nmessage N { int32 inner = 1; }\n'


class Files:
    """A generator of a message with random fields, and of later versions of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def fields(self) -> dict[int, tuple[str, str, bool]]:
        """The fields by number: type, name, whether it is in the oneof."""
        numbers = self.random.sample(range(1, 12), self.random.randrange(1, 7))
        return {number: self._field(number) for number in numbers}

    def follow(self, fields: dict[int, tuple[str, str, bool]]) -> dict[int, tuple[str, str, bool]]:
        fields = dict(fields)
        for _ in range(self.random.randrange(1, 3)):
            number = self.random.choice(list(fields))
            kind, name, is_in = fields[number]
            match self.random.randrange(5):
                case 0 if len(fields) > 1:
                    del fields[number]
                case 1:
                    fields[number] = (self.random.choice(TYPES[:14]), name, False)
                case 2:
                    fields[number] = (kind, name, False)
                case 3:
                    fields[number] = (kind, f"{name}_renamed", is_in)
                case _:
                    new = self.random.randrange(20, 30)
                    fields[new] = self._field(new)
        return fields

    def _field(self, number: int) -> tuple[str, str, bool]:
        kind = self.random.choice(TYPES)
        return kind, f"f{number}", "map" not in kind and self.random.random() < 0.3


def text(fields: dict[int, tuple[str, str, bool]]) -> str:
    plain = [f"{kind} {name} = {number};" for number, (kind, name, is_in) in fields.items() if not is_in]
    inside = [f"{kind} {name} = {number};" for number, (kind, name, is_in) in fields.items() if is_in]
    oneof = f"oneof o {{ {' '.join(inside)} }}" if inside else ""
    return f"{HEAD}message M {{ {' '.join(plain)} {oneof} }}"


def message_class(serialized: str):
    pool = DescriptorPool()
    pool.AddSerializedFile(base64.b64decode(serialized))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


def fill(message, source: random.Random) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.message_type is not None:
            getattr(message, field.name).inner = source.randrange(1, 100)
        elif field.cpp_type == field.CPPTYPE_STRING:
            value = "x" * source.randrange(1, 5)
            setattr(message, field.name, value if field.type == field.TYPE_STRING else value.encode())
        else:
            setattr(message, field.name, field.cpp_type == field.CPPTYPE_BOOL or 1)


def test_compatible_schemas_parse_old_bytes() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    files = Files(seed)
    read = refused = 0
    for _ in range(ROUNDS):
        before = files.fields()
        after = files.follow(before)
        old, new = parse("PROTOBUF", text(before)), parse("PROTOBUF", text(after))
        if new.incompatibilities(old):
            refused += 1
            continue
        written = message_class(old.formatted("serialized"))()
        fill(written, files.random)
        parsed = message_class(new.formatted("serialized"))()
        parsed.ParseFromString(written.SerializeToString())
        for number in before.keys() & after.keys():
            (kind, name, _), (now, renamed, _) = before[number], after[number]
            if kind == now and "map" not in kind:
                theirs = getattr(parsed, renamed)
                assert str(theirs) == str(getattr(written, name)), (text(before), text(after))
        read += 1
    assert read > ROUNDS / 5
    assert refused > ROUNDS / 20


GOOGLE = (any_pb2, api_pb2, descriptor_pb2, struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2)


def as_sent(module) -> str:
    """The text that confluent-kafka's serializer registers."""
    return base64.b64encode(module.DESCRIPTOR.serialized_pb).decode()


@pytest.mark.parametrize("module", GOOGLE, ids=lambda module: module.DESCRIPTOR.name)
def test_a_descriptor_comes_back_as_it_was_sent(module) -> None:
    schema = parse("PROTOBUF", as_sent(module))
    sent = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    serialized = parse("PROTOBUF", schema.canonical()).formatted("serialized")
    back = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized))
    back.name = sent.name
    assert back == sent


def test_a_built_in_file_may_be_a_reference_too() -> None:
    """confluent-kafka's serializer registers all imports of a message, also well-known types."""
    path = "google/protobuf/timestamp.proto"
    text = f'syntax = "proto3"; import "{path}"; message M {{ google.protobuf.Timestamp t = 1; }}'
    find = Found(as_sent(timestamp_pb2))
    schema = parse("PROTOBUF", text, [Reference(path, "timestamp", 1)], lambda _: find)
    assert schema.formatted("serialized") == parse("PROTOBUF", text).formatted("serialized")
    assert not schema.incompatibilities(parse("PROTOBUF", text))


def test_what_connects_converter_writes_is_a_descriptor() -> None:
    """It uses an option of Confluent's without importing its file, and Google's types for dates and times."""
    text = """syntax = "proto3";
        import "confluent/type/decimal.proto";
        import "google/type/date.proto";
        import "google/type/timeofday.proto";
        message M {
          confluent.type.Decimal d = 1 [(confluent.field_meta) = { params: [{ value: "6", key: "scale" }] }];
          google.type.Date day = 2;
          google.type.TimeOfDay at = 3;
        }"""
    schema = parse("PROTOBUF", text)
    descriptor = base64.b64decode(schema.formatted("serialized"))
    again = parse("PROTOBUF", base64.b64encode(descriptor).decode())
    assert again.normalized().canonical() == schema.normalized().canonical()
    names = [each.name for each in descriptor_pb2.FileDescriptorSet.FromString(schema.file_set()).file]
    assert {"google/type/date.proto", "google/type/timeofday.proto"} < set(names)
    assert "confluent/meta.proto" not in descriptor_pb2.FileDescriptorProto.FromString(descriptor).dependency


def of_texts() -> list[object]:
    return [
        pytest.param(case, id=case.title)
        for case in (*cases("protobuf_text"), *cases("protobuf_compatibility"))
        if "descriptor" not in case.title
    ]


@pytest.mark.parametrize("case", of_texts())
def test_a_descriptor_says_what_the_text_says(case: Case) -> None:
    schema = parse("PROTOBUF", case.sections.get("schema", case.sections.get("old", "")))
    serialized = schema.formatted("serialized")
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized))
    assert file.name == "default"
    again = parse("PROTOBUF", serialized)
    if "group" in schema.canonical():
        return  # in descriptors groups are messages, and Confluent's registry reads them as such
    assert not again.incompatibilities(schema)
    assert not schema.incompatibilities(again)
    if "features." not in schema.canonical():  # a descriptor keeps them as one message
        assert again.normalized().canonical() == schema.normalized().canonical()


@pytest.mark.parametrize("case", of_texts())
def test_the_parser_sees_what_another_one_sees(case: Case) -> None:
    source = case.sections.get("schema", case.sections.get("new", "")).replace("0x2", "2")  # it reads no hex
    schema = parse("PROTOBUF", source)
    assert sorted(_ours(schema.file)) == sorted(_theirs(Parser().parse(source).file_elements, ""))


def _ours(file: File):
    for each in file.types:
        if isinstance(each, Message):
            yield from _our_fields(each, each.name)


def _our_fields(message: Message, path: str):
    fields = [*message.fields, *(field for oneof in message.oneofs for field in oneof.fields)]
    for field in fields:
        kind = field.type.replace(" ", "")
        yield path, field.name, field.number, kind, field.label or ""
    for each in message.types:
        if isinstance(each, Message):
            yield from _our_fields(each, f"{path}.{each.name}")


def _theirs(elements, path: str):
    for each in elements:
        match each:
            case ast.Message():
                yield from _theirs(each.elements, f"{path}.{each.name}" if path else each.name)
            case ast.OneOf():
                yield from _theirs(each.elements, path)
            case ast.Field():
                yield (
                    path,
                    each.name,
                    each.number,
                    each.type,
                    each.cardinality.value.lower() if each.cardinality else "",
                )
            case ast.MapField():
                yield path, each.name, each.number, f"map<{each.key_type},{each.value_type}>", ""
