"""Check whether one schema can read the bytes of another, by Confluent's rules on field numbers.

Imported types are compared too, unless both schemas import them from the same version of a subject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.registry.formats.protobuf.model import SCALARS, EnumType, Field, File, Message
from penstock.registry.formats.protobuf.names import LOCAL, Known, Names, joined
from penstock.registry.formats.references import Reference
from penstock.registry.formats.schema import REPORTED_MAX, Incompatibility, shown_path

COMPATIBLE: Final = frozenset(
    [
        *("MESSAGE_ADDED", "MESSAGE_MOVED", "ENUM_ADDED", "ENUM_REMOVED"),
        *("ENUM_CONST_ADDED", "ENUM_CONST_CHANGED", "ENUM_CONST_REMOVED"),
        *("FIELD_ADDED", "FIELD_REMOVED", "FIELD_NAME_CHANGED", "FIELD_STRING_OR_BYTES_LABEL_CHANGED"),
        *("ONEOF_ADDED", "ONEOF_REMOVED", "ONEOF_FIELD_ADDED", "ONEOF_FIELD_MOVED_TO_TOP_LEVEL"),
    ]
)
_DESCRIPTIONS: Final = {
    "PACKAGE_CHANGED": "the package of the {reader} schema ({path}) is not that of the {writer} schema",
    "MESSAGE_REMOVED": "the {reader} schema lacks the message at {path} of the {writer} schema",
    "FIELD_KIND_CHANGED": (
        "the field at {path} of the {reader} schema is of another kind (scalar, message, map) than in the "
        "{writer} schema"
    ),
    "FIELD_SCALAR_KIND_CHANGED": (
        "the scalar field at {path} of the {reader} schema has another encoding than in the {writer} schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "the message of the field at {path} of the {reader} schema is not that of the {writer} schema"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "the numeric field at {path} of the {reader} schema has another label than in the {writer} schema"
    ),
    "REQUIRED_FIELD_ADDED": (
        "the {reader} schema requires the field at {path}, which the {writer} schema lacks"
    ),
    "REQUIRED_FIELD_REMOVED": (
        "the {reader} schema lacks the field at {path}, which the {writer} schema requires"
    ),
    "ONEOF_FIELD_REMOVED": "the {reader} schema lacks the field of a oneof at {path} of the {writer} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "the oneof at {path} of the {reader} schema has several fields that could be set together in the "
        "{writer} schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "the oneof at {path} of the {reader} schema has a field that could be set together with others in "
        "the {writer} schema"
    ),
}
# Scalars of one group can read each other's bytes.
_ENCODINGS: Final = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "general number"),
    **dict.fromkeys(("sint32", "sint64"), "signed number"),
    **dict.fromkeys(("string", "bytes"), "string or bytes"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}
Path = tuple[str, ...]


class Difference(NamedTuple):
    """One difference, and its path."""

    rule: str
    path: Path


Differences = list[Difference]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two compared schemas. ``references`` are keyed by import path."""

    file: File
    names: Names
    references: Mapping[str, Reference]

    def origin(self, known: Known) -> tuple[str, int] | None:
        """Return the subject and version that a type comes from.

        Returns None for built-in types, and for types of files that only other files import.
        """
        if known.path == LOCAL:
            return "", -1
        reference = self.references.get(known.path)
        return (reference.subject, reference.version) if reference is not None else None


def incompatibilities(reader: Side, writer: Side) -> list[Incompatibility]:
    """Return the differences that keep ``reader`` from reading data of ``writer``."""
    found = [each for each in differences(writer, reader) if each.rule not in COMPATIBLE]
    return [
        Incompatibility(each.rule, shown_path(each.path), _DESCRIPTIONS[each.rule])
        for each in found[:REPORTED_MAX]
    ]


def differences(original: Side, update: Side) -> Differences:
    """Return all differences, including harmless ones."""
    comparison = _Comparison(original, update)
    found = []
    if (original.file.package or "") != (update.file.package or ""):
        found.append(Difference("PACKAGE_CHANGED", ()))
    scopes = (original.names.package, update.names.package)
    return [*found, *comparison.types(original.file.types, update.file.types, (), scopes)]


Scopes = tuple[str, str]  # the scopes in which the names of the original and of the update are resolved


class _Comparison:
    def __init__(self, original: Side, update: Side) -> None:
        self._original = original
        self._update = update
        self._open: set[tuple[Message, Message]] = set()
        # whether two imported messages are incompatible
        self._changed: dict[tuple[Message, Message], bool] = {}

    def types(
        self,
        before: Sequence[Message | EnumType],
        after: Sequence[Message | EnumType],
        path: Path,
        scopes: Scopes,
    ) -> Differences:
        """Compare the messages and enums of one scope by name."""
        found: Differences = []
        old, new = _messages(before), _messages(after)
        places = [{name: i for i, name in enumerate(side)} for side in (old, new)]
        for name in dict.fromkeys([*old, *new]):
            here = (*path, name)
            if name not in new:
                found += [Difference("MESSAGE_REMOVED", here)] if old[name].map_types is None else []
            elif name not in old:
                found += [Difference("MESSAGE_ADDED", here)] if new[name].map_types is None else []
            else:
                inner = (joined(scopes[0], name), joined(scopes[1], name))
                found += self._message(old[name], new[name], here, inner)
                if places[0][name] != places[1][name]:
                    found.append(Difference("MESSAGE_MOVED", here))
        return [*found, *_enums(before, after, path)]

    def _message(self, before: Message, after: Message, path: Path, scopes: Scopes) -> Differences:
        pair = (before, after)
        found: Differences = []
        if pair not in self._open:
            self._open.add(pair)
            found += self._members(before, after, path, scopes)
            self._open.discard(pair)
        return [*found, *self.types(before.types, after.types, path, scopes)]

    def _members(self, before: Message, after: Message, path: Path, scopes: Scopes) -> Differences:
        old, new = _fields(before), _fields(after)
        found = [*_exclusive(old, after, path), *_oneofs(before, after, path)]
        kept = {number for number in old if number in new}
        gone = {
            oneof.name
            for oneof in before.oneofs
            if all(each.name != oneof.name for each in after.oneofs)
            and not any(field.number in kept for field in oneof.fields)
        }
        for number in sorted(old.keys() | new.keys()):
            plain = (*path, str(number))
            if number not in new:
                found += _removed(*old[number], path, gone)
            elif number not in old:
                field, oneof = new[number]
                if oneof is not None:
                    found.append(Difference("ONEOF_FIELD_ADDED", (*path, oneof, str(number))))
                else:
                    is_required = field.label == "required"
                    found.append(Difference("REQUIRED_FIELD_ADDED" if is_required else "FIELD_ADDED", plain))
            else:
                (field, was_in), (update, is_in) = old[number], new[number]
                if was_in is not None and is_in is None:
                    found.append(Difference("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", plain))
                here = plain if is_in is None else (*path, is_in, str(number))
                found += self._field(field, update, here, scopes)
        return found

    def _field(self, before: Field, after: Field, path: Path, scopes: Scopes) -> Differences:
        found = [] if before.name == after.name else [Difference("FIELD_NAME_CHANGED", path)]
        return [*found, *self._values(before.type, after.type, (before.label, after.label), path, scopes)]

    def _values(
        self, before: str, after: str, labels: tuple[str | None, str | None], path: Path, scopes: Scopes
    ) -> Differences:
        """Compare the types of two fields: scalars (enums are numbers), messages or maps."""
        old, new = self._original.names.known(before, scopes[0]), self._update.names.known(after, scopes[1])
        old_map, new_map = _map_types(before, old), _map_types(after, new)
        kinds = [
            _kind(name, known, pair) for name, known, pair in ((before, old, old_map), (after, new, new_map))
        ]
        if kinds[0] != kinds[1]:
            return [Difference("FIELD_KIND_CHANGED", path)]
        if kinds[0] == "scalar":
            return _scalars(
                _ENCODINGS.get(before, "general number"),
                _ENCODINGS.get(after, "general number"),
                labels,
                path,
            )
        if old_map is not None and new_map is not None:
            keys = self._values(old_map[0], new_map[0], (None, None), path, scopes)
            return [*keys, *self._values(old_map[1], new_map[1], (None, None), path, scopes)]
        if old is None or new is None:
            return [] if before == after else [Difference("FIELD_NAMED_TYPE_CHANGED", path)]
        return self._named(before, after, old, new, path, scopes)

    def _named(
        self, before: str, after: str, old: Known, new: Known, path: Path, scopes: Scopes
    ) -> Differences:
        full = (
            self._original.names.type(before, scopes[0]) or "",
            self._update.names.type(after, scopes[1]) or "",
        )
        local = full[0].removeprefix(f"{old.package}."), full[1].removeprefix(f"{new.package}.")
        if local[0] != local[1]:
            return [Difference("FIELD_NAMED_TYPE_CHANGED", path)]
        origins = self._original.origin(old), self._update.origin(new)
        if old.type is new.type or (origins[0] == origins[1] and origins[0] is not None):
            return []
        assert isinstance(old.type, Message)
        assert isinstance(new.type, Message)
        pair = (old.type, new.type)
        found: Differences = []
        # Report each pair once; otherwise types that use each other twice at each level would multiply the
        # list.
        if pair not in self._changed:
            # A message that contains itself is compatible unless another difference is found.
            self._changed[pair] = False
            found = self._message(*pair, tuple(local[0].split(".")), full)
            self._changed[pair] = any(each.rule not in COMPATIBLE for each in found)
        return [*found, *([Difference("FIELD_NAMED_TYPE_CHANGED", path)] if self._changed[pair] else [])]


def _messages(types: Sequence[Message | EnumType]) -> dict[str, Message]:
    return {each.name: each for each in types if isinstance(each, Message)}


def _fields(message: Message) -> dict[int, tuple[Field, str | None]]:
    """Return the fields by number, each with the name of its oneof."""
    found: dict[int, tuple[Field, str | None]] = {field.number: (field, None) for field in message.fields}
    for oneof in message.oneofs:
        found |= {field.number: (field, oneof.name) for field in oneof.fields}
    return found


def _enums(
    before: Sequence[Message | EnumType], after: Sequence[Message | EnumType], path: Path
) -> Differences:
    found = []
    old = {each.name: each for each in before if isinstance(each, EnumType)}
    new = {each.name: each for each in after if isinstance(each, EnumType)}
    for name in dict.fromkeys([*old, *new]):
        here = (*path, name)
        if name not in new or name not in old:
            found.append(Difference("ENUM_ADDED" if name in new else "ENUM_REMOVED", here))
            continue
        constants = [{each.number: each.name for each in side[name].constants} for side in (old, new)]
        for number in sorted(constants[0].keys() | constants[1].keys()):
            was, now = constants[0].get(number), constants[1].get(number)
            if was != now:
                rule = "ADDED" if was is None else "REMOVED" if now is None else "CHANGED"
                found.append(Difference(f"ENUM_CONST_{rule}", (*here, str(number))))
    return found


def _exclusive(old: dict[int, tuple[Field, str | None]], after: Message, path: Path) -> Differences:
    """Find fields that exclude each other now but did not before, so that old data may contain several."""
    found = []
    for oneof in after.oneofs:
        members = [old[field.number] for field in oneof.fields if field.number in old]
        alone = [field for field, was_in in members if was_in is None]
        groups = len(alone) + len({was_in for _, was_in in members if was_in is not None})
        if groups > 1:
            rule = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if len(alone) > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            found.append(Difference(rule, (*path, oneof.name)))
    return found


def _oneofs(before: Message, after: Message, path: Path) -> Differences:
    old, new = {each.name for each in before.oneofs}, {each.name for each in after.oneofs}
    return [
        Difference("ONEOF_REMOVED" if name in old else "ONEOF_ADDED", (*path, name))
        for name in sorted(old ^ new)
    ]


def _removed(field: Field, oneof: str | None, path: Path, gone: set[str]) -> Differences:
    """Report a removed field; a whole oneof may be removed, but not one of its fields alone."""
    if oneof is None:
        rule = "REQUIRED_FIELD_REMOVED" if field.label == "required" else "FIELD_REMOVED"
        return [Difference(rule, (*path, str(field.number)))]
    return [] if oneof in gone else [Difference("ONEOF_FIELD_REMOVED", (*path, oneof, str(field.number)))]


def _map_types(name: str, known: Known | None) -> tuple[str, str] | None:
    if name.startswith("map<"):
        key, value = name[4:-1].split(", ")
        return key, value
    return known.type.map_types if known is not None and isinstance(known.type, Message) else None


def _kind(name: str, known: Known | None, pair: tuple[str, str] | None) -> str:
    if pair is not None:
        return "map"
    is_scalar = name in SCALARS or (known is not None and isinstance(known.type, EnumType))
    return "scalar" if is_scalar else "message"


def _scalars(before: str, after: str, labels: tuple[str | None, str | None], path: Path) -> Differences:
    if before != after:
        return [Difference("FIELD_SCALAR_KIND_CHANGED", path)]
    if None in labels or labels[0] == labels[1]:
        return []
    rule = "STRING_OR_BYTES" if before == "string or bytes" else "NUMERIC"
    return [Difference(f"FIELD_{rule}_LABEL_CHANGED", path)]
