"""Deserialization of JSON rows, with a fast typed decoder and a lenient reader as its fallback.

msgspec's decoder for a class of the columns is several times faster than parsing and converting, but it
accepts only values of the exact type under the exact names. A reader therefore adapts the class to objects
that the decoder rejects. A new field name (`id` for ID, or a name without a column) becomes a field of the
class, and a column whose values are not of its own JSON type is from then on converted by a function. The
decoder rejects an object with a name that is not in the class, because it might be another spelling of a
column. The adaptation never changes the result for a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec

from penstock.sql.formats import numbers
from penstock.sql.formats.errors import FormatError
from penstock.sql.formats.json.values import coercion, object_coercion, parse
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct

NAMES_MAX: Final = 256
"""Limits the fields of a class. Objects with more names use them as data, and are read without a class."""
_INTEGER: Final = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_BIGINT: Final = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_NATURAL: Final[dict[SqlType, Any]] = {
    types.BOOLEAN: bool,
    types.INTEGER: _INTEGER,
    types.BIGINT: _BIGINT,
    types.DOUBLE: float,
    types.STRING: str,
    types.BYTES: bytes,
    types.TIME: Annotated[int, msgspec.Meta(ge=0, le=numbers.DAY_MS)],
    types.DATE: _BIGINT,
    types.TIMESTAMP: _BIGINT,
}
_NULL: Final = b"null"


def _natural(type_: SqlType) -> Any:
    """The Python type that a decoder can build directly, or None."""
    match type_:
        case Array(element):
            inner = _natural(element)
            return None if inner is None else list[inner | None]  # type: ignore[valid-type]
        case Map(_, value):
            inner = _natural(value)
            return None if inner is None else dict[str, inner | None]  # type: ignore[valid-type]
    return _NATURAL.get(type_)


def _is_natural(value: Any, type_: SqlType) -> bool:
    match type_:
        case types.BOOLEAN:
            return isinstance(value, bool)
        case types.DOUBLE:
            return isinstance(value, (int, Decimal)) and not isinstance(value, bool)
        case types.STRING | types.BYTES:
            return isinstance(value, str)
        case Array(element):
            return isinstance(value, list) and all(x is None or _is_natural(x, element) for x in value)
        case Map(_, inner):
            return isinstance(value, dict) and all(x is None or _is_natural(x, inner) for x in value.values())
    return isinstance(value, int) and not isinstance(value, bool)


def _of_raw(type_: SqlType, has_entries: bool) -> Callable[[Any], Any]:
    """Build a reader for a part of a text that the decoder left undecoded."""
    coerce = coercion(type_, has_entries)
    if isinstance(type_, types.Decimal):
        fit = numbers.fitting(type_)

        def read_decimal(raw: Any) -> Any:
            text = bytes(raw)
            if text == _NULL:
                return None
            return fit(Decimal(text.decode())) if text[0] != 0x22 else coerce(parse(text))

        return read_decimal
    if isinstance(type_, Struct):
        reader = ObjectReader(type_.fields, has_entries)
        names = [name for name, _ in type_.fields]

        def read_struct(raw: Any) -> Any:
            return None if bytes(raw) == _NULL else dict(zip(names, reader.read(raw), strict=True))

        return read_struct

    def read(raw: Any) -> Any:
        value = parse(raw)
        return None if value is None else coerce(value)

    return read


def _field(type_: SqlType, is_loose: bool, has_entries: bool) -> tuple[Any, Callable[[Any], Any] | None]:
    """The type of the class's field for a column, and the function that converts its value, if any."""
    if not is_loose:
        natural = _natural(type_)
        if natural is not None:
            return natural, None
        if isinstance(type_, Array):
            of_element = _of_raw(type_.element, has_entries)
            return list[msgspec.Raw], lambda raws: [of_element(raw) for raw in raws]
        if isinstance(type_, Map) and not has_entries:
            of_value = _of_raw(type_.value, has_entries)
            return dict[str, msgspec.Raw], lambda raws: {key: of_value(raw) for key, raw in raws.items()}
    return msgspec.Raw, _of_raw(type_, has_entries)


class ObjectReader:
    """A reader of JSON objects with given fields."""

    def __init__(self, fields: Sequence[tuple[str, SqlType]], has_entries: bool = False) -> None:
        self._fields = tuple(fields)
        self._places = {name: index for index, (name, _) in enumerate(self._fields)}
        self._has_entries = has_entries
        self._coerce = object_coercion(self._fields, "an object", has_entries)
        self._names: dict[str, int | None] = {}  # names in the text, with the column's index
        self._loose: set[int] = set()
        # One name may match two columns, `a` and A. Only the lenient reader assigns it to both.
        self._is_learning = not any(
            name.upper() != name and name.upper() in self._places for name in self._places
        )
        self._read: Callable[[Any], tuple[Any, ...]] | None = None

    def read(self, data: bytes) -> tuple[Any, ...]:
        """Read the fields' values. Raises FormatError."""
        read = self._read
        if read is not None:
            try:
                return read(data)
            except (ValueError, ArithmeticError, RecursionError):
                pass  # an error of msgspec, or of the conversion of a value
        return self._read_leniently(data)

    def _read_leniently(self, data: bytes) -> tuple[Any, ...]:
        value = parse(data)
        row: tuple[Any, ...] = self._coerce(value)
        if self._is_learning:
            self._learn(value)
        return row

    def _learn(self, value: dict[str, Any]) -> None:
        before = len(self._names), len(self._loose)
        for name, each in value.items():
            place = self._places.get(name)
            if place is None:
                place = self._places.get(name.upper())
            if name not in self._names:
                if place is not None and place in self._names.values():
                    self._give_up()  # only the lenient reader decides between two spellings of a column
                    return
                self._names[name] = place
            if place is not None and each is not None and place not in self._loose:
                type_ = self._fields[place][1]
                if _natural(type_) is not None and not _is_natural(each, type_):
                    self._loose.add(place)
        if len(self._names) > NAMES_MAX:
            self._give_up()
        elif self._read is None or before != (len(self._names), len(self._loose)):
            self._read = self._compiled()

    def _give_up(self) -> None:
        self._is_learning = False
        self._read = None

    def _compiled(self) -> Callable[[Any], tuple[Any, ...]]:
        """Compile a function from bytes to the row, for the names and types seen so far."""
        attributes: list[tuple[str, Any, Any]] = []
        rename: dict[str, str] = {}
        values = ["None"] * len(self._fields)
        namespace: dict[str, Any] = {}
        for number, (name, place) in enumerate(self._names.items()):
            attribute = f"a{number}"
            rename[attribute] = name
            if place is None:
                attributes.append((attribute, msgspec.Raw, None))
                continue
            kind, finish = _field(self._fields[place][1], place in self._loose, self._has_entries)
            attributes.append((attribute, kind if kind is msgspec.Raw else kind | None, None))
            values[place] = f"o.{attribute}"
            if finish is not None:
                namespace[f"f{number}"] = finish
                values[place] = f"None if o.{attribute} is None else f{number}(o.{attribute})"
        made = msgspec.defstruct(
            "Row", attributes, rename=rename, forbid_unknown_fields=True, gc=False, eq=False
        )
        namespace["decode"] = msgspec.json.Decoder(made).decode
        body = f"    o = decode(data)\n    return ({''.join(f'{each}, ' for each in values)})\n"
        exec(compile(f"def read(data):\n{body}", "<generated JSON reader>", "exec"), namespace)
        read: Callable[[Any], tuple[Any, ...]] = namespace["read"]
        return read


def single_reader(name: str, type_: SqlType, has_entries: bool = False) -> Callable[[bytes], tuple[Any, ...]]:
    """Build a reader of an unwrapped value."""
    coerce = coercion(type_, has_entries)
    natural = _natural(type_)
    decode = None if natural is None else msgspec.json.Decoder(natural | None).decode

    def deserialize(data: bytes) -> tuple[Any]:
        if decode is not None:
            try:
                return (decode(data),)
            except (ValueError, ArithmeticError, RecursionError):
                pass
        value = parse(data)
        try:
            return (None if value is None else coerce(value),)
        except FormatError as error:
            raise error.within(name) from None

    return deserialize
