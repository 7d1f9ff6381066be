"""Message definitions: the notation of ``definitions/*.kmsg``, and its parser.

A definition file contains messages. Each is a table of fields for all versions of the message::

    api 1 Fetch
    versions 4-18  flexible 12+  listeners broker controller

    request
        cluster_id         string?       12+   tag 0 = null
        topics             [FetchTopic]
            topic          string        4-12
            topic_id       uuid          13+
            partitions     [int32]

    response
        ...

The columns of a field are its name, its type, the versions that have it (if missing, all versions of its
parent), and options.

========================  ====================================================================================
``string?``               may be null in every version that has the field; ``string?7+`` from version 7 on
``[int32]``               array; ``[Name]`` is an array of structs; ``Name`` alone is a struct
indented lines            the fields of that struct, unless a separate ``struct Name`` block defines it
                          (for structs used in several places)
``tag 3``                 a tagged field (KIP-482), written only if it differs from its default
``= -1``                  the default; otherwise zero, false, empty, or a struct of defaults
``plain``                 never in compact encoding, not even in flexible versions
========================  ====================================================================================

Each message starts with one of these heads, followed by a line of versions:

``api KEY Name``
    a request and a response. ``stable`` gives the versions that the release calls stable, if these are not
    all; ``advertised`` the versions that ApiVersions shows, if they differ from the served ones;
    ``listeners`` the kinds of node that serve the API.
``record ID Name``
    a record framed by its id and version (in the metadata log, and in the metadata of tiered storage).
``key ID Name``, ``value ID Name``
    the two halves of a coordinator's record (in the internal topics).
``message Name``
    any other message.

``#`` begins a comment. Names are Kafka's, in snake case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

DIRECTORY = Path(__file__).parent / "definitions"

INTEGERS = frozenset(("int8", "int16", "int32", "int64", "uint16", "uint32"))
PRIMITIVES = INTEGERS | {"bool", "float64", "uuid", "string", "bytes", "records"}


class DefinitionError(Exception):
    """A definition file violates the notation; the message names the file and the line."""


class Versions(NamedTuple):
    """A closed range of versions; it is empty if ``low > high``."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"

    def all(self) -> range:
        return range(self.low, self.high + 1)


NO_VERSIONS = Versions(0, -1)


@dataclass(slots=True, eq=False)
class Struct:
    """A named list of fields in wire order; tagged fields are ordered by their tags instead."""

    name: str
    fields: list[Field] = field(default_factory=list)

    def plain_fields(self, version: int) -> list[Field]:
        return [f for f in self.fields if f.tag is None and version in f.versions]

    def tagged_fields(self, version: int) -> list[Field]:
        tagged = [f for f in self.fields if f.tag is not None and version in f.versions]
        return sorted(tagged, key=lambda f: f.tag or 0)


@dataclass(slots=True, eq=False)
class Field:
    """One field; ``type_name`` is a primitive or the name of ``struct``, and ``is_array`` makes it a list."""

    name: str
    type_name: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: str | None
    compact: bool
    struct: Struct | None = None

    @property
    def default_value(self) -> object:
        """The default as a Python value; None for null, and for structs and arrays, which are mutable."""
        if self.default == "null" or self.is_array or self.struct is not None:
            return None
        match self.type_name:
            case "bool":
                return self.default == "true"
            case "float64":
                return float(self.default or 0)
            case "uuid":
                return bytes(16)
            case "string":
                return self.default or ""
            case "bytes":
                return b""
            case "records":
                return None
            case _:
                return int(self.default or 0)

    @property
    def needs_fresh_default(self) -> bool:
        """Whether the default is mutable: an empty list, or a struct of defaults."""
        return self.default != "null" and (self.is_array or self.struct is not None)


@dataclass(slots=True, eq=False)
class Message:
    """One top-level message and the versions in which it can be encoded."""

    name: str
    kind: str
    """``request``, ``response``, ``record``, ``key``, ``value`` or ``message``."""
    id: int
    """The API key, or the id of a record; -1 for a ``message``."""
    versions: Versions
    flexible: Versions
    body: Struct
    structs: dict[str, Struct]
    file: str
    """The name of the defining file, without its suffix."""


@dataclass(slots=True, eq=False)
class Api:
    """The head of an API's definition file."""

    key: int
    name: str
    versions: Versions
    stable: Versions
    advertised: Versions
    listeners: tuple[str, ...]


_VERSIONS = re.compile(r"(\d+)(?:-(\d+)|(\+))?$")
_TYPE = re.compile(r"(\[)?(\w+)(\])?(\?(\S+)?)?$")
_OPTIONS = re.compile(r"(?:tag (?P<tag>\d+))?\s*(?P<plain>plain)?\s*(?:= (?P<default>\S+))?$")


def parse_versions(text: str, within: Versions) -> Versions:
    """Parse ``3``, ``3-5``, or ``3+`` (up to the highest of ``within``)."""
    match = _VERSIONS.match(text)
    if match is None:
        raise DefinitionError(f"not a range of versions: {text!r}")
    low = int(match[1])
    high = int(match[2]) if match[2] else within.high if match[3] else low
    return Versions(low, high)


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


class _Parser:
    """Parses one file into messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = list(_significant_lines(path.read_text("utf-8")))
        self.position = 0

    def messages(self) -> Iterator[Message]:
        while self.position < len(self.lines):
            words = self._next_head()
            if words[0] == "api":
                yield from self._api_messages(int(words[1]), words[2])
            elif words[0] in ("record", "key", "value"):
                versions, flexible = self._versions_line()
                yield self._message(words[2], words[0], int(words[1]), versions, flexible)
            elif words[0] == "message":
                versions, flexible = self._versions_line()
                yield self._message(words[1], "message", -1, versions, flexible)
            else:
                raise self._error(f"expected the head of a message, found {' '.join(words)!r}")

    def _api_messages(self, key: int, name: str) -> Iterator[Message]:
        versions, flexible = self._versions_line()
        for kind in ("request", "response"):
            if self._next_head() != [kind]:
                raise self._error(f"expected {kind!r}")
            yield self._message(name + kind.capitalize(), kind, key, versions, flexible)

    def _versions_line(self) -> tuple[Versions, Versions]:
        words = dict(zip(*[iter(self._next_head())] * 2, strict=False))
        versions = parse_versions(words["versions"], NO_VERSIONS)
        flexible = parse_versions(words["flexible"], versions) if "flexible" in words else NO_VERSIONS
        return versions, flexible

    def _message(self, name: str, kind: str, id: int, versions: Versions, flexible: Versions) -> Message:
        structs: dict[str, Struct] = {}
        body = Struct(name)
        self._fields(body, 4, versions, versions, structs)
        while self.position < len(self.lines) and self.lines[self.position].text.startswith("struct "):
            shared = self._struct(self._next_head()[1], structs)
            self._fields(shared, 4, versions, versions, structs)
        return Message(name, kind, id, versions, flexible, body, structs, self.path.stem)

    def _struct(self, name: str, structs: dict[str, Struct]) -> Struct:
        return structs.setdefault(name, Struct(name))

    def _fields(
        self, owner: Struct, indent: int, within: Versions, message: Versions, structs: dict[str, Struct]
    ) -> None:
        """Read the fields at ``indent``, each with the deeper lines below it, into ``owner``."""
        while self.position < len(self.lines) and self.lines[self.position].indent == indent:
            parsed = self._field(within, message)
            owner.fields.append(parsed)
            if parsed.type_name not in PRIMITIVES:
                parsed.struct = self._struct(parsed.type_name, structs)
                if self.position < len(self.lines) and self.lines[self.position].indent > indent:
                    self._fields(parsed.struct, indent + 4, parsed.versions, message, structs)

    def _field(self, within: Versions, message: Versions) -> Field:
        name, type_text, *rest = self._take().text.split(None, 2)
        tail = rest[0] if rest else ""
        first, _, after = tail.partition(" ")
        versions = within
        if _VERSIONS.match(first):
            versions, tail = parse_versions(first, message), after.strip()
        type_match, options = _TYPE.match(type_text), _OPTIONS.match(tail)
        if type_match is None or options is None or bool(type_match[1]) != bool(type_match[3]):
            raise self._error(f"not a field: {name} {type_text} {tail}")
        nullable = NO_VERSIONS
        if type_match[4]:
            nullable = parse_versions(type_match[5], message) if type_match[5] else versions
        return Field(
            name=name,
            type_name=type_match[2],
            is_array=type_match[1] is not None,
            versions=versions,
            nullable=nullable,
            tag=int(options["tag"]) if options["tag"] else None,
            default=options["default"],
            compact=not options["plain"],
        )

    def _take(self) -> _Line:
        line = self.lines[self.position]
        self.position += 1
        return line

    def _next_head(self) -> list[str]:
        if self.position >= len(self.lines) or self.lines[self.position].indent:
            raise self._error("expected an unindented line")
        return self._take().text.split()

    def _error(self, what: str) -> DefinitionError:
        at = self.lines[min(self.position, len(self.lines)) - 1].number if self.lines else 0
        return DefinitionError(f"{self.path.name}, line {at}: {what}")


def _significant_lines(text: str) -> Iterator[_Line]:
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].rstrip()
        if line:
            stripped = line.lstrip(" ")
            yield _Line(number, len(line) - len(stripped), stripped)


def parse_file(path: Path) -> list[Message]:
    """Parse all messages of one file, in order."""
    parser = _Parser(path)
    try:
        return list(parser.messages())
    except DefinitionError as error:
        if str(error).startswith(path.name):
            raise
        raise parser._error(str(error)) from error


def parse_api_head(path: Path) -> Api:
    """Parse only the head of an API's file, which is cheap enough to read all heads at start."""
    lines = _significant_lines(path.read_text("utf-8"))
    _, key, name = next(lines).text.split()
    words = next(lines).text.split()
    versions = parse_versions(words[words.index("versions") + 1], NO_VERSIONS)

    def given(option: str, otherwise: Versions) -> Versions:
        return parse_versions(words[words.index(option) + 1], versions) if option in words else otherwise

    stable = given("stable", versions)
    listeners = tuple(words[words.index("listeners") + 1 :])
    return Api(int(key), name, versions, stable, given("advertised", stable), listeners)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Library:
    """All definitions, read file by file when they are needed."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._directory = directory
        self._messages: dict[str, Message] = {}
        self._read: set[Path] = set()

    def message(self, name: str) -> Message:
        """The message with this name. Raises KeyError if no file defines it."""
        if name not in self._messages:
            self._read_until_found(name)
        return self._messages[name]

    def all_messages(self) -> list[Message]:
        for path in [*self._api_paths(), *self._other_paths()]:
            self._read_file(path)
        return list(self._messages.values())

    def messages_in(self, stem: str) -> list[Message]:
        """The messages of the file ``stem``.kmsg, in the file's order."""
        path = self._directory / f"{stem}.kmsg"
        self._read_file(path)
        return [message for message in self._messages.values() if message.file == stem]

    def apis(self) -> list[Api]:
        """The heads of all APIs, in the order of their keys."""
        return sorted(map(parse_api_head, self._api_paths()), key=lambda api: api.key)

    def _read_until_found(self, name: str) -> None:
        stem = name.removesuffix("Request").removesuffix("Response")
        api_path = self._directory / "apis" / f"{_snake_case(stem)}.kmsg"
        if stem != name and api_path.exists():
            self._read_file(api_path)
            return
        for path in self._other_paths():
            self._read_file(path)
            if name in self._messages:
                return

    def _read_file(self, path: Path) -> None:
        if path not in self._read:
            self._read.add(path)
            self._messages |= {message.name: message for message in parse_file(path)}

    def _api_paths(self) -> list[Path]:
        return sorted((self._directory / "apis").glob("*.kmsg"))

    def _other_paths(self) -> list[Path]:
        return sorted(self._directory.glob("*.kmsg"))


library = Library()
