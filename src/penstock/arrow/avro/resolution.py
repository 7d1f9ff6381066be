"""Read the data of one Avro schema by another one: Avro's rules of schema resolution, built as nodes.

If no datum can be read, building fails at once (`Unreadable`). Otherwise only rows with an
unreadable branch of a union or symbol of an enum are bad.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.arrow.avro import reading
from penstock.arrow.avro.mapping import (
    arrow_type,
    decimal_of,
    default_scalar,
    is_spread,
    logical,
)
from penstock.arrow.avro.reading import Cursor, Extent, Node, padded
from penstock.arrow.decoded import Decoded, spread
from penstock.registry.formats.avro.types import ABSENT, Field, Type

_PROMOTED: Final = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
_BITS: Final = {"int": 32, "long": 64}
_FLOATS: Final = {"float": "<f4", "double": "<f8"}


class Unreadable(ValueError):
    """No datum of the writer's schema can be read by the reader's; the message says where and why."""


class Projection:
    """A reader of columns written with ``writer`` as ``reader``. Raises Unreadable or ConfigError."""

    def __init__(self, writer: Type, reader: Type) -> None:
        self.type = arrow_type(reader)
        self._node = _Plan().node(writer, reader, "")

    def read(self, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Decoded:
        """Read one datum at each start; starts are ascending."""
        cursor = Cursor(padded(data), starts, starts + lengths)
        rows = np.arange(len(starts))
        found = self._node.read(cursor, rows)
        left = np.flatnonzero(cursor.at < cursor.end)
        for row in left.tolist():
            size = cursor.end[row] - cursor.at[row]
            cursor.fail(np.array([row]), f"{size} bytes are left over after the datum")
        if cursor.bad:
            good = np.flatnonzero(~cursor.is_bad)
            found = spread(found.take(pa.array(good)), good, len(rows))
        return Decoded(found, cursor.bad)


class _Plan:
    def __init__(self) -> None:
        self._skipped: dict[int, reading.Again] = {}

    def node(self, writer: Type, reader: Type, path: str) -> Node:
        if writer.kind == "union":
            return self._written_union(writer, reader, path)
        if reader.kind == "union":
            return self._read_union(writer, reader, path)
        if not _match(writer, reader):
            raise Unreadable(
                f"{_at(path)} was written as {_described(writer)}, which {_described(reader)} can't read"
            )
        match writer.kind:
            case "record":
                return self._record(writer, reader, path)
            case "array" | "map":
                item = self.node(writer.items[0], reader.items[0], f"{path}[]")
                return reading.Repeated(
                    arrow_type(reader),
                    item,
                    arrow_type(reader.items[0]),
                    writer.kind == "map",
                    writer.kind == "array" and _may_be_empty(writer.items[0]),
                    reading.Text(pa.string()),
                    None if writer.kind == "map" else _extent(writer.items[0]),
                )
            case "enum":
                return _enum(writer, reader)
        return _simple(writer, reader, path)

    def _record(self, writer: Type, reader: Type, path: str) -> Node:
        places: dict[str, int] = {}
        for name_of in (lambda f: (f.name,), lambda f: f.aliases):
            for at, field in enumerate(reader.fields):
                if at not in places.values():
                    there = (
                        f.name for f in writer.fields if f.name not in places and f.name in name_of(field)
                    )
                    if (name := next(there, None)) is not None:
                        places[name] = at
        written = [
            (place, self.node(f.type, reader.fields[place].type, f"{path}.{f.name}"))
            if (place := places.get(f.name)) is not None
            else (None, self.skip(f.type))
            for f in writer.fields
        ]
        absent = [
            (at, _default(field, f"{path}.{field.name}"))
            for at, field in enumerate(reader.fields)
            if at not in places.values()
        ]
        return reading.Record(arrow_type(reader), written, absent)

    def _written_union(self, writer: Type, reader: Type, path: str) -> Node:
        """Read a union of the writer. At least one branch must be readable; rows with another one are bad."""
        kind = arrow_type(reader)
        branches: list[Node] = []
        problems: list[str] = []
        for branch in writer.items:
            try:
                branches.append(self.node(branch, reader, path))
            except Unreadable as problem:
                problems.append(str(problem))
                branches.append(reading.Refused(kind, str(problem)))
        if len(problems) == len(branches):
            raise Unreadable(problems[0])
        return reading.Union(kind, branches)

    def _read_union(self, writer: Type, reader: Type, path: str) -> Node:
        kind = arrow_type(reader)
        if writer.kind == "null":
            if any(each.kind == "null" for each in reader.items):
                return reading.Nothing(kind)
            raise Unreadable(f"{_at(path)} is null, which {_described(reader)} does not have")
        branches = [each for each in reader.items if each.kind != "null"]
        problem: Unreadable | None = None
        for place in _by_likeness(writer, branches):
            try:
                node = self.node(writer, branches[place], path)
            except Unreadable as error:
                problem = problem or error
                continue
            if is_spread(reader):
                return reading.Member(kind, place, node)
            return _widened(node, kind)
        raise problem or Unreadable(
            f"{_at(path)} was written as {_described(writer)}, which {_described(reader)} can't read"
        )

    def skip(self, writer: Type) -> Node:
        """Build a node that skips a value, even if no column can hold it."""
        match writer.kind:
            case "null":
                return reading.Nothing(pa.null())
            case "string" | "bytes":
                return reading.Skipped()
            case "enum":
                return reading.Enum(writer.symbols, writer.symbols)
            case "fixed":
                return reading.Fixed(writer.size)
            case "boolean":
                return reading.Boolean()
            case "int" | "long":
                return reading.Whole(pa.int64(), _BITS[writer.kind])
            case "float" | "double":
                return reading.Float(pa.float64(), _FLOATS[writer.kind])
        if id(writer) in self._skipped:
            return self._skipped[id(writer)]
        again = self._skipped[id(writer)] = reading.Again()
        again.node = self._skip_nested(writer)
        return again.node

    def _skip_nested(self, writer: Type) -> Node:
        if writer.kind == "record":
            return reading.Record(None, [(None, self.skip(field.type)) for field in writer.fields], [])
        if writer.kind == "union":
            return reading.Union(None, [self.skip(each) for each in writer.items])
        item = writer.items[0]
        is_empty = writer.kind == "array" and _may_be_empty(item)
        skipped = self.skip(item)
        is_map = writer.kind == "map"
        extent = None if is_map else _extent(item)
        return reading.Repeated(None, skipped, pa.null(), is_map, is_empty, reading.Skipped(), extent)


def _simple(writer: Type, reader: Type, path: str) -> Node:
    kind = arrow_type(reader)
    if pa.types.is_decimal(kind) and reader.kind in ("bytes", "fixed"):
        if logical(writer) != "decimal" or decimal_of(writer)[1] != decimal_of(reader)[1]:  # type: ignore[index]
            raise Unreadable(
                f"{_at(path)} was written as {_described(writer)}, expected {_described(reader)}"
            )
        return reading.DecimalNode(kind, writer.size if writer.kind == "fixed" else None)
    if logical(writer) == "decimal":
        raise Unreadable(f"{_at(path)} was written as {_described(writer)}, expected {_described(reader)}")
    match writer.kind:
        case "null":
            return reading.Nothing(kind)
        case "boolean":
            return reading.Boolean()
        case "string" | "bytes":
            return reading.Text(kind)
        case "fixed":
            return reading.Fixed(writer.size, is_uuid=logical(reader) == "uuid")
        case "float" | "double":
            return reading.Float(kind, _FLOATS[writer.kind])
    return reading.Whole(kind, _BITS[writer.kind], _time_factor(writer, reader, path))


def _time_factor(writer: Type, reader: Type, path: str) -> int:
    """Return the factor from the writer's time unit to the reader's. Raises Unreadable if types differ."""
    wrote, reads = logical(writer), logical(reader)
    is_time = "timestamp" in reads
    if is_time and "timestamp" in wrote and wrote.startswith("local") == reads.startswith("local"):
        return 1000 if wrote.endswith("millis") else 1
    if (is_time or reads == "date") and wrote != reads:
        raise Unreadable(f"{_at(path)} was written as {_described(writer)}, expected {_described(reader)}")
    return 1


def _widened(node: Node, kind: pa.DataType) -> Node:
    """Return a branch of a numeric union with the type of the whole union."""
    if isinstance(node, reading.Whole) and node.type != kind:
        return reading.Whole(kind, node.bits, node.factor)
    if isinstance(node, reading.Float) and node.type != kind:
        return reading.Float(kind, node.dtype)
    return node


def _enum(writer: Type, reader: Type) -> Node:
    known = set(reader.symbols)
    return reading.Enum(
        [each if each in known else reader.symbol_default for each in writer.symbols], writer.symbols
    )


def _default(field: Field, path: str) -> reading.Constant:
    if field.default is ABSENT:
        raise Unreadable(f"{_at(path)} was not written, and the reader's schema has no default for it")
    try:
        return reading.Constant(default_scalar(field.type, field.default, arrow_type(field.type)))
    except ValueError as problem:
        raise Unreadable(f"{_at(path)} was not written, and {problem}") from None


def _match(writer: Type, reader: Type) -> bool:
    """Whether a type may be read as another, without comparing their parts. Namespaces are ignored."""
    match writer.kind:
        case "record" | "enum" | "fixed":
            if reader.kind != writer.kind or reader.size != writer.size:
                return False
            names = {reader.name, *reader.aliases}
            return writer.name is None or any(n is not None and n.name == writer.name.name for n in names)
        case "null" | "boolean" | "array" | "map":
            return reader.kind == writer.kind
    return reader.kind in _PROMOTED[writer.kind]


def _by_likeness(writer: Type, branches: list[Type]) -> list[int]:
    """Return the indexes of branches: the writer's own type first, then types that it may be promoted to."""

    def distance(place: int) -> int:
        branch = branches[place]
        if branch.kind == writer.kind and (writer.name is None or branch.full_name == writer.full_name):
            return 0
        return 1 if branch.kind == writer.kind else 2

    return sorted(range(len(branches)), key=distance)


def _may_be_empty(of: Type, inside: tuple[Type, ...] = ()) -> bool:
    """Whether a datum may take no bytes."""
    if of.kind == "record":
        return of not in inside and all(_may_be_empty(f.type, (*inside, of)) for f in of.fields)
    return of.kind == "null" or (of.kind == "fixed" and of.size == 0)


def _extent(of: Type, inside: tuple[Type, ...] = ()) -> Extent | None:
    """Return the size of a datum of this type, or None if only reading it tells the size."""
    match of.kind:
        case "int" | "long" | "enum":
            return Extent(varints=1)
        case "boolean" | "float" | "double":
            return Extent(bytes={"boolean": 1, "float": 4, "double": 8}[of.kind])
        case "fixed" if of.size:
            return Extent(bytes=of.size)
        case "record" if of.fields and of not in inside:
            parts = [_extent(field.type, (*inside, of)) for field in of.fields]
            known = [each for each in parts if each is not None and each.branch is None]
            sizes, numbers = sum(each.bytes for each in known), sum(each.varints for each in known)
            if len(known) == len(parts) and not (sizes and numbers):
                return Extent(sizes, numbers)
        case "union" if len(of.items) == 2 and "null" in (each.kind for each in of.items):
            place = int(of.items[0].kind == "null")
            one = _extent(of.items[place], inside)
            if one is not None and one.branch is None:
                return Extent(one.bytes and one.bytes + 1, one.varints and one.varints + 1, 2 * place)
    return None


def _described(of: Type) -> str:
    name = of.properties.get("logicalType")
    if of.kind == "union":
        return "a union of " + ", ".join(map(_described, of.items))
    if of.name is not None:
        return f"the {of.kind} {of.full_name}" + (f" ({of.size} bytes)" if of.kind == "fixed" else "")
    return f"{of.kind} ({name})" if isinstance(name, str) else of.kind


def _at(path: str) -> str:
    return f"field '{path.lstrip('.')}'" if path else "it"
