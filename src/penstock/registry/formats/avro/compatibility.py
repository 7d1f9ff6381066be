"""Check whether a reader's schema can read a writer's data, by the rules of Avro's schema resolution.

The check differs from Avro's Java class in two ways. In Java a path starts again inside a union; here it
continues, so that it still names the field. And the problems of two types are reported in full only where the
types first meet, and with one line where they meet again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Final

from penstock.registry.formats.avro.types import ABSENT, Field, Name, Type
from penstock.registry.formats.errors import ComparisonTooLarge
from penstock.registry.formats.schema import REPORTED_MAX, Incompatibility

COMPARISONS_MAX: Final = 250_000
"""Limit on compared pairs of types; the largest schemas in practice need some hundred thousand."""

# The other types that a reader's type can read.
_PROMOTED: Final[dict[str, tuple[str, ...]]] = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
_PROMOTED_TO: Final = {
    written: tuple(read for read, taken in _PROMOTED.items() if written in taken)
    for written in {each for taken in _PROMOTED.values() for each in taken}
}
_DESCRIPTIONS: Final = {
    "NAME_MISMATCH": (
        "the {reader} schema has another name at {path} than the {writer} schema, and no alias for it"
    ),
    "FIXED_SIZE_MISMATCH": (
        "the fixed of the {reader} schema has another size at {path} than in the {writer} schema"
    ),
    "MISSING_ENUM_SYMBOLS": (
        "the enum of the {reader} schema lacks symbols of the {writer} schema at {path}, and has no default"
    ),
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "the field of the {reader} schema at {path} is not in the {writer} schema, and has no default"
    ),
    "TYPE_MISMATCH": "the type of the {reader} schema at {path} can't read that of the {writer} schema",
    "MISSING_UNION_BRANCH": "the union of the {reader} schema lacks a type of the {writer} schema at {path}",
}
_Path = tuple[str, ...]


def incompatibilities(reader: Type, writer: Type) -> list[Incompatibility]:
    """Return every broken rule, in the order of the reader's fields."""
    return _Check().compare(reader, writer, ())[:REPORTED_MAX]


class _Check:
    def __init__(self) -> None:
        # The value is None while a pair is being compared: types that contain each other are compatible
        # unless shown otherwise.
        self._known: dict[tuple[Type, Type], list[Incompatibility] | None] = {}
        self._branches: dict[Type, _Branches] = {}

    def compare(self, reader: Type, writer: Type, path: _Path) -> list[Incompatibility]:
        pair = (reader, writer)
        if pair in self._known:
            # The problems were reported in full at the first meeting. Repeating them would double the list
            # wherever two types use each other twice.
            return (self._known[pair] or [])[:1]
        if len(self._known) >= COMPARISONS_MAX:
            raise ComparisonTooLarge(
                f"more than {COMPARISONS_MAX} pairs of types to compare: too many types of the same name"
            )
        self._known[pair] = None
        found = self._compare(reader, writer, path)
        self._known[pair] = found
        return found

    def _compare(self, reader: Type, writer: Type, path: _Path) -> list[Incompatibility]:
        if writer.kind == "union":
            return self._written_union(reader, writer, path)
        if reader.kind == "union":
            if reader not in self._branches:
                self._branches[reader] = _Branches(reader)
            likely = self._branches[reader].likely(writer)
            if any(not self.compare(reader.items[i], writer, (*path, str(i))) for i in likely):
                return []
            return [_lacks_branch(writer, path)]
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTED.get(reader.kind, ()):
                return []
            detail = (
                f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
            )
            return [_broken("TYPE_MISMATCH", path, detail)]
        match reader.kind:
            case "array":
                return self.compare(reader.items[0], writer.items[0], (*path, "items"))
            case "map":
                return self.compare(reader.items[0], writer.items[0], (*path, "values"))
            case "fixed":
                return [*_names(reader, writer, path), *_sizes(reader, writer, path)]
            case "enum":
                return [*_names(reader, writer, path), *_symbols(reader, writer, path)]
            case "record":
                return [*_names(reader, writer, path), *self._fields(reader, writer, path)]
        return []

    def _written_union(self, reader: Type, writer: Type, path: _Path) -> list[Incompatibility]:
        """Check that every branch of the writer's union is readable.

        If the reader is a union too, the result names the missing branch, otherwise the reason.
        """
        found: list[Incompatibility] = []
        for i, branch in enumerate(writer.items):
            here = (*path, str(i))
            reasons = self.compare(reader, branch, here)
            found += [_lacks_branch(branch, here)] if reasons and reader.kind == "union" else reasons
        return found

    def _fields(self, reader: Type, writer: Type, path: _Path) -> list[Incompatibility]:
        found: list[Incompatibility] = []
        written = {field.name: field for field in writer.fields}
        for i, field in enumerate(reader.fields):
            here = (*path, "fields", str(i))
            source = _source(field, written)
            if source is not None:
                found += self.compare(field.type, source.type, (*here, "type"))
            elif field.default is ABSENT:
                if field.type.kind == "enum" and field.type.symbol_default is not None:
                    # An enum's default applies to unknown symbols, not to missing fields: Avro compares the
                    # enum with the whole record.
                    found += self.compare(field.type, writer, (*here, "type"))
                else:
                    found.append(_broken("READER_FIELD_MISSING_DEFAULT_VALUE", here, field.name))
        return found


class _Branches:
    """The branches of a union by kind and name, so that two unions of a thousand records compare quickly."""

    def __init__(self, union: Type) -> None:
        self._places: dict[Hashable, list[int]] = defaultdict(list)
        for i, branch in enumerate(union.items):
            names: tuple[str | Name | None, ...] = (None,)
            if branch.name is not None:
                names = (branch.name.name, *branch.aliases)
            for name in names:
                self._places[branch.kind, name].append(i)

    def likely(self, writer: Type) -> list[int]:
        """Return the indexes of the branches that may match the kind and name of the writer's type."""
        keys: list[Hashable]
        if writer.name is not None:
            keys = [(writer.kind, writer.name.name), (writer.kind, writer.name)]
        else:
            keys = [(kind, None) for kind in (writer.kind, *_PROMOTED_TO.get(writer.kind, ()))]
        return sorted({i for key in keys for i in self._places.get(key, ())})


def _source(field: Field, written: dict[str, Field]) -> Field | None:
    """Return the writer's field for a reader's field: the one with its name, or with one of its aliases."""
    names = [name for name in (field.name, *field.aliases) if name in written]
    return written[names[0]] if names else None


def _names(reader: Type, writer: Type, path: _Path) -> list[Incompatibility]:
    """Compare two names: the namespace doesn't matter, but an alias must match the full name."""
    assert reader.name is not None
    assert writer.name is not None
    if reader.name.name == writer.name.name or writer.name in reader.aliases:
        return []
    return [_broken("NAME_MISMATCH", (*path, "name"), f"expected: {writer.name.full}")]


def _sizes(reader: Type, writer: Type, path: _Path) -> list[Incompatibility]:
    if reader.size == writer.size:
        return []
    return [_broken("FIXED_SIZE_MISMATCH", (*path, "size"), f"expected: {writer.size}, found: {reader.size}")]


def _symbols(reader: Type, writer: Type, path: _Path) -> list[Incompatibility]:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.symbol_default is not None:
        return []
    return [_broken("MISSING_ENUM_SYMBOLS", (*path, "symbols"), f"[{', '.join(missing)}]")]


def _lacks_branch(branch: Type, path: _Path) -> Incompatibility:
    return _broken("MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {branch.kind.upper()}")


def _broken(kind: str, path: Sequence[str], detail: str) -> Incompatibility:
    return Incompatibility(kind, "/" + "/".join(path), _DESCRIPTIONS[kind], detail)
