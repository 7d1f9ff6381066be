"""Writes ``messages.pyi``, the types of the message classes, from the definitions.

Run ``python -m penstock.protocol.generate_stubs`` after changing ``definitions/``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from penstock.protocol.definition import Field, Message, Struct, library

STUB_PATH = Path(__file__).parent / "messages.pyi"

LINE_LENGTH = 110

_HEAD = """\
# Written by generate_stubs.py from definitions/*.kmsg; do not edit.
from penstock.protocol.codec import Message as Message
from penstock.protocol.codec import MessageStruct as MessageStruct
from penstock.protocol.codec import Records as Records
from penstock.protocol.uuids import ZERO_UUID as ZERO_UUID
from penstock.protocol.uuids import uuid_from_text as uuid_from_text
from penstock.protocol.uuids import uuid_to_text as uuid_to_text

RecordBytes = bytes | bytearray | memoryview | Records

def message_class(name: str) -> type[Message]: ...
"""

_PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "RecordBytes",
}


def stub_text() -> str:
    """The text of ``messages.pyi``."""
    return "\n".join([_HEAD, *_classes()])


def _classes() -> Iterator[str]:
    for message in sorted(library.all_messages(), key=lambda message: message.name):
        yield from _message(message)


def _message(message: Message) -> Iterator[str]:
    yield f"class {message.name}(Message):"
    for struct in message.structs.values():
        yield f"    class {struct.name}(MessageStruct):"
        yield from _members(struct, message.name, "        ")
        yield ""
    yield from _members(message.body, message.name, "    ")
    yield ""


def _members(struct: Struct, message_name: str, indent: str) -> Iterator[str]:
    if not struct.fields:
        yield f"{indent}def __init__(self) -> None: ..."
        return
    for field in struct.fields:
        python_type = _type(field, message_name)
        if field.type_name == "records":
            yield from _records_property(field.name, python_type, indent)
        else:
            yield f"{indent}{field.name}: {python_type}"
    yield f"{indent}def __init__("
    yield f"{indent}    self,"
    yield f"{indent}    *,"
    for field in struct.fields:
        yield _parameter(f"{indent}    ", field.name, _type(field, message_name))
    yield f"{indent}) -> None: ..."


def _parameter(indent: str, name: str, python_type: str) -> str:
    line = f"{indent}{name}: {python_type} = ...,"
    if len(line) <= LINE_LENGTH:
        return line
    outer, _, element = python_type.partition("[")
    return f"{indent}{name}: {outer}[\n{indent}    {element.removesuffix(']')}\n{indent}] = ...,"


def _records_property(name: str, python_type: str, indent: str) -> Iterator[str]:
    """Declare a property: records can be set in several forms, but a decoder sets a view of its input."""
    yield f"{indent}@property"
    yield f"{indent}def {name}(self) -> {python_type.replace('RecordBytes', 'memoryview')}: ..."
    yield f"{indent}@{name}.setter"
    yield f"{indent}def {name}(self, value: {python_type}) -> None: ..."


def _type(field: Field, message_name: str) -> str:
    if field.struct is not None:
        python_type = f"{message_name}.{field.type_name}"
    else:
        python_type = _PYTHON_TYPES.get(field.type_name, "int")
    if field.is_array:
        python_type = f"list[{python_type}]"
    nullable = field.nullable.low <= field.nullable.high or field.default == "null"
    return f"{python_type} | None" if nullable else python_type


def main() -> None:
    STUB_PATH.write_text(stub_text(), "utf-8")


if __name__ == "__main__":
    main()
