"""Values for message tests: Hypothesis strategies made from the definitions, and a plain form to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from penstock.protocol.codec import Message
from penstock.protocol.definition import Field, Struct, library
from penstock.protocol.messages import message_class

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
LONG_ENOUGH_FOR_TWO_BYTES_OF_LENGTH = 150

Override = Callable[[Field], "st.SearchStrategy[Any] | None"]
"""A function that narrows the values of a field, for an oracle that cannot hold all of them."""


def all_message_versions(*kinds: str) -> list[tuple[str, int]]:
    """The (name, version) of each message in the definitions."""
    return [
        (message.name, version)
        for message in library.all_messages()
        if not kinds or message.kind in kinds
        for version in message.versions.all()
    ]


def messages(name: str, version: int, override: Override = lambda field: None) -> st.SearchStrategy[Message]:
    """Instances of ``name`` with every field that ``version`` carries set to some value."""
    cls = message_class(name)
    return _struct(cls._definition.body, version, cls, cls, override)


def _struct(
    struct: Struct, version: int, cls: type, message: type[Message], override: Override
) -> st.SearchStrategy[Any]:
    flexible = message.is_flexible(version)
    arguments = {
        field.name: _field(field, version, message, override)
        for field in struct.fields
        if version in field.versions and (flexible or field.tag is None)
    }
    return st.builds(cls, **arguments)


def _field(field: Field, version: int, message: type[Message], override: Override) -> st.SearchStrategy[Any]:
    narrowed = override(field)
    values = _element(field, version, message, override) if narrowed is None else narrowed
    if field.is_array:
        values = st.lists(values, max_size=2)
    choices = [values]
    if version in field.nullable:
        choices.append(st.none())
    if field.tag is not None and field.struct is not None and not field.is_array:
        choices.append(st.builds(getattr(message, field.type_name)))
    elif field.tag is not None and not field.is_array:
        choices.append(st.just(field.default_value))
    return st.one_of(choices)


def _element(
    field: Field, version: int, message: type[Message], override: Override
) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        return _struct(field.struct, version, getattr(message, field.type_name), message, override)
    match field.type_name:
        case "bool":
            return st.booleans()
        case "float64":
            return st.floats(allow_nan=False)
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "string":
            long = st.just("é" * LONG_ENOUGH_FOR_TWO_BYTES_OF_LENGTH)
            return st.one_of(st.text(max_size=6), long)
        case "bytes" | "records":
            long_bytes = st.just(b"\xff" * LONG_ENOUGH_FOR_TWO_BYTES_OF_LENGTH)
            return st.one_of(st.binary(max_size=6), long_bytes)
        case integer:
            bits = INTEGER_BITS[integer]
            if integer.startswith("u"):
                return st.integers(0, 2**bits - 1)
            return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


Plain = list[tuple[str, Any]]


def plain(message: Message, version: int) -> Plain:
    """(name, value) of the fields that ``version`` carries, structs in the same way."""
    cls = type(message)
    return _plain_struct(message, cls._definition.body, version, cls.is_flexible(version))


def _plain_struct(value: Any, struct: Struct, version: int, flexible: bool) -> Plain:
    return [
        (field.name, _plain_field(getattr(value, field.name), field, version, flexible))
        for field in struct.fields
        if version in field.versions and (flexible or field.tag is None)
    ]


def _plain_field(value: Any, field: Field, version: int, flexible: bool) -> Any:
    if value is None or field.struct is None:
        return value
    if field.is_array:
        return [_plain_struct(item, field.struct, version, flexible) for item in value]
    return _plain_struct(value, field.struct, version, flexible)
