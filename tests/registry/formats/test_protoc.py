"""Printed Protobuf schemas, read by protoc: public files, and what is rare in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.type import date_pb2
from grpc_tools import protoc

from penstock.registry.formats import Reference, Schema, parse
from penstock.registry.formats.references import Found

RARE = {
    "negative.proto": """
        syntax = "proto3";
        enum Side { UNKNOWN = 0; BUY = 1; SELL = -1; }
        message Order { Side side = 1; }
    """,
    "infinite.proto": """
        syntax = "proto2";
        message Limits {
          optional double low = 1 [default = -inf];
          optional double high = 2 [default = inf];
          optional float none = 3 [default = nan];
          optional double exact = 4 [default = -1.50e3];
        }
    """,
    "extensions.proto": """
        syntax = "proto2";
        package p;
        import "google/protobuf/descriptor.proto";
        extend google.protobuf.FieldOptions { optional Options options = 50000; }
        message Options { optional double y = 1; extensions 100 to 200; }
        extend Options { optional int32 x = 100; optional Options o = 101; }
        message M {
          optional float a = 1 [(options).y = -inf];
          optional float b = 2 [(options).(x) = 3];
          optional float c = 3 [(p.options).(p.o).(x) = 3, (options).y = nan];
          optional float d = 4 [(options) = { y: -inf [p.x]: 3 }];
        }
    """,
}


def public_files() -> dict[str, str]:
    """The files of protoc and of googleapis-common-protos by import path."""
    roots = [Path(str(files("grpc_tools") / "_proto")), Path(date_pb2.__file__).parents[2]]
    return {
        str(path.relative_to(root)): path.read_text()
        for root in roots
        for path in root.glob("google/**/*.proto")
    }


PUBLIC = public_files()


def imports(text: str) -> list[str]:
    return re.findall(r'^\s*import (?:public |weak )?"([^"]+)"', text, re.MULTILINE)


def parsed(path: str, texts: Mapping[str, str]) -> Schema:
    """The schema of a file, with a reference for each file that it imports."""

    def references(text: str) -> tuple[Reference, ...]:
        return tuple(Reference(name, name, 1) for name in imports(text) if name in texts)

    return parse(
        "PROTOBUF",
        texts[path],
        references(texts[path]),
        lambda reference: Found(texts[reference.name], references(texts[reference.name])),
    )


def described(directory: Path, texts: Mapping[str, str]) -> dict[str, FileDescriptorProto]:
    """The descriptors that protoc makes of files, with fields in the order of their numbers."""
    for path, text in texts.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    result = directory / "descriptors"
    assert protoc.main(["protoc", f"-I{directory}", f"--descriptor_set_out={result}", *texts]) == 0
    found = {each.name: each for each in FileDescriptorSet.FromString(result.read_bytes()).file}
    for file in found.values():
        for message in file.message_type:
            sort_fields(message)
        for method in (method for service in file.service for method in service.method):
            if not method.options.ByteSize():
                method.ClearField("options")
    return found


def sort_fields(message: DescriptorProto) -> None:
    """Confluent's form prints the fields of oneofs after all others."""
    message.field.sort(key=lambda field: field.number)
    for nested in message.nested_type:
        sort_fields(nested)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return PUBLIC | RARE


def test_there_are_many_public_files() -> None:
    assert len(PUBLIC) >= 70


def test_protoc_reads_the_canonical_form_as_it_reads_the_original(
    tmp_path: Path, texts: dict[str, str]
) -> None:
    printed = {path: parsed(path, texts).canonical() for path in texts}
    originals = described(tmp_path / "originals", texts)
    assert described(tmp_path / "printed", printed) == originals


def test_protoc_reads_the_normal_form(tmp_path: Path, texts: dict[str, str]) -> None:
    printed = {path: parsed(path, texts).normalized().canonical() for path in texts}
    found, originals = described(tmp_path / "normal", printed), described(tmp_path / "originals", texts)
    for path in texts:
        assert names_of(found[path]) == names_of(originals[path]), path


def names_of(file: FileDescriptorProto) -> dict[str, set[str]]:
    """The names of the fields of each message, and of the constants of each enum."""
    return {each.name: {field.name for field in each.field} for each in file.message_type} | {
        each.name: {constant.name for constant in each.value} for each in file.enum_type
    }


def test_files_of_google_can_be_imported_without_references() -> None:
    types = sorted(path for path in PUBLIC if path.startswith(("google/type/", "google/protobuf/")))
    unknown = {"google/type/localized_text.proto"} | {
        path for path in types if "/compiler/" in path or path.endswith("_features.proto")
    }
    for path in types:
        if path not in unknown:
            parse("PROTOBUF", f'syntax = "proto3"; import "{path}"; message M {{ string x = 1; }}')
