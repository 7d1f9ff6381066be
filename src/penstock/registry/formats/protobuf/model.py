"""The syntax tree of a `.proto` file."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

SCALARS: Final = frozenset(
    [
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    ]
)
NUMBER_MAX: Final = 536_870_911  # the largest field number
ENUM_NUMBER_MAX: Final = 2**31 - 1


class Kind(Enum):
    """The form of an option's value in the text."""

    STRING = "string"
    BOOLEAN = "boolean"
    NUMBER = "number"
    ENUM = "enum"
    MAP = "map"
    LIST = "list"
    OPTION = "option"  # a part of the option's message: (option).part = …


@dataclass(frozen=True, slots=True)
class Word:
    """A number, boolean or enum constant inside a message literal or list, where strings are str."""

    kind: Kind
    text: str


@dataclass(slots=True)
class Option:
    """An option. ``value`` is a text, a dict of names to values, a list, or the Option of a part."""

    name: str
    kind: Kind
    value: Any
    is_extension: bool = False  # written in parentheses


@dataclass(slots=True, eq=False)
class Field:
    """A field. ``label`` is None if the text has none, as in oneofs. A map's type is `map<key, value>`."""

    label: str | None
    type: str
    name: str
    number: int
    options: list[Option] = field(default_factory=list)
    default: str | None = None
    json_name: str | None = None

    @property
    def map_types(self) -> tuple[str, str] | None:
        if not self.type.startswith("map<"):
            return None
        key, value = self.type[4:-1].split(", ")
        return key, value


Span: TypeAlias = tuple[int, int]  # both ends are included


@dataclass(slots=True)
class Reserved:
    """One `reserved` or `extensions` statement: numbers, ranges of numbers, and names."""

    values: list[int | Span | str]
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Group:
    label: str | None
    name: str
    number: int
    fields: list[Field]


@dataclass(slots=True, eq=False)
class OneOf:
    name: str
    fields: list[Field] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Extend:
    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Constant:
    name: str
    number: int
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class EnumType:
    name: str
    constants: list[Constant] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Message:
    name: str
    types: list[Message | EnumType] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    extensions: list[Reserved] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    @property
    def map_types(self) -> tuple[str, str] | None:
        """The key and value types, if this message is a descriptor's entry of a map."""
        if not any(each.name == "map_entry" and each.value == "true" for each in self.options):
            return None
        types = {each.name: each.type for each in self.fields}
        return (types["key"], types["value"]) if types.keys() >= {"key", "value"} else None


@dataclass(slots=True, eq=False)
class Rpc:
    name: str
    request: str
    response: str
    request_streams: bool = False
    response_streams: bool = False
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Service:
    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class File:
    """A parsed file. ``syntax`` is as written: proto2, proto3, an edition as `edition:2023`, or None."""

    syntax: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    weak_imports: list[str] = field(default_factory=list)
    types: list[Message | EnumType] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    @property
    def all_imports(self) -> list[str]:
        return [*self.imports, *self.public_imports, *self.weak_imports]
