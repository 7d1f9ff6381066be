"""Decode the bytes of keys and values: whole binary columns become columns of a type.

`FORMATS` is the table of format names in options. Fixed-width numbers are those of Kafka's own serializers:
big endian, with as many bytes as the type has. No Python object is created for a record that can be decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.csv.reading import Csv
from penstock.arrow.ddl import parse_ddl
from penstock.arrow.decoded import Decoded, Format, shown, spans, spread, valid_rows
from penstock.arrow.json.reading import Json, JsonText
from penstock.arrow.schema_choice import SCHEMA_TYPES, SchemaChoice
from penstock.client.settings import ConfigError

_UUID_BYTES: Final = 16
_UUID_LETTERS: Final = 36
_DASHES_AT: Final = (8, 13, 18, 23)


@dataclass(frozen=True, slots=True)
class Binary:
    """The unchanged bytes."""

    name: str = "binary"
    is_slow: bool = False

    @property
    def type(self) -> pa.DataType:
        return pa.binary()

    def decode(self, column: pa.BinaryArray) -> Decoded:
        return Decoded(column, {})


@dataclass(frozen=True, slots=True)
class String:
    """UTF-8, as Kafka's StringSerializer writes by default."""

    name: str = "string"
    is_slow: bool = False

    @property
    def type(self) -> pa.DataType:
        return pa.string()

    def decode(self, column: pa.BinaryArray) -> Decoded:
        try:
            return Decoded(column.cast(pa.string()), {})  # copies nothing, but validates all bytes
        except pa.ArrowInvalid:
            bad = {row: problem for row, value in enumerate(column) if (problem := _utf8_problem(value))}
            return Decoded(_without(column, bad).cast(pa.string()), bad)


@dataclass(frozen=True, slots=True)
class FixedWidth:
    """One number in as many bytes as its type has, big endian."""

    name: str
    dtype: str
    is_slow: bool = False

    @property
    def type(self) -> pa.DataType:
        return pa.from_numpy_dtype(np.dtype(self.dtype).newbyteorder("="))

    def decode(self, column: pa.BinaryArray) -> Decoded:
        dtype = np.dtype(self.dtype)
        starts, lengths, data = spans(column)
        wrong = lengths != dtype.itemsize
        if not wrong.any():  # nulls have no bytes, so there are no nulls either
            first = int(starts[0]) if len(starts) else 0
            numbers = np.frombuffer(data, dtype, len(lengths), first)
            return Decoded(_numbers(numbers.astype(dtype.newbyteorder("=")), self.type), {})
        at = np.flatnonzero(~wrong)
        numbers = np.ascontiguousarray(_gather(data, starts[at], dtype.itemsize)).view(dtype).ravel()
        bad_rows = np.flatnonzero(wrong & valid_rows(column))
        bad = {
            int(row): f"expected {dtype.itemsize} bytes, found {shown(column[row].as_py())}"
            for row in bad_rows
        }
        return Decoded(
            spread(_numbers(numbers.astype(dtype.newbyteorder("=")), self.type), at, len(lengths)), bad
        )


@dataclass(frozen=True, slots=True)
class Uuid:
    """A UUID as text, as Kafka's UUIDSerializer writes it, or as 16 bytes; it becomes lower-case text."""

    name: str = "uuid"
    is_slow: bool = True

    @property
    def type(self) -> pa.DataType:
        return pa.string()

    def decode(self, column: pa.BinaryArray) -> Decoded:
        starts, lengths, data = spans(column)
        letters = np.zeros((len(lengths), _UUID_LETTERS), np.uint8)
        texts = np.flatnonzero(lengths == _UUID_LETTERS)
        letters[texts] = _LOWER[_gather(data, starts[texts], _UUID_LETTERS)]
        numbers = np.flatnonzero(lengths == _UUID_BYTES)
        letters[numbers] = _uuid_letters(_gather(data, starts[numbers], _UUID_BYTES))
        good = (letters == _UUID_SHAPE) | (_IS_HEX[letters] & (_UUID_SHAPE == 0))
        at = np.flatnonzero(good.all(axis=1))
        wrong = np.ones(len(lengths), bool)
        wrong[at] = False
        bad = {
            int(row): f"expected a UUID as text or as 16 bytes, found {shown(column[row].as_py())}"
            for row in np.flatnonzero(wrong & valid_rows(column))
        }
        return Decoded(spread(_fixed_texts(letters[at]), at, len(lengths)), bad)


BINARY: Final = Binary()

# Constructors by format name, each given the schema or None. `keyFormat` and `valueFormat` take these names.
FORMATS: Final[Mapping[str, Callable[[pa.DataType | None], Format]]] = {
    "binary": lambda schema: BINARY,
    "bytes": lambda schema: BINARY,
    "string": lambda schema: String(),
    "json": lambda schema: JsonText() if schema is None else Json(schema),
    "csv": lambda schema: Csv(pa.struct([]) if schema is None else schema),
    "short": lambda schema: FixedWidth("short", ">i2"),
    "int": lambda schema: FixedWidth("int", ">i4"),
    "long": lambda schema: FixedWidth("long", ">i8"),
    "float": lambda schema: FixedWidth("float", ">f4"),
    "double": lambda schema: FixedWidth("double", ">f8"),
    "uuid": lambda schema: Uuid(),
}
_WITH_SCHEMA: Final = ("json", "csv")
# Formats whose columns come from a schema; their modules are loaded on first use.
REGISTERED: Final = tuple(SCHEMA_TYPES)
FORMAT_NAMES: Final = (*FORMATS, *REGISTERED)


def make_format(name: str, schema: SchemaChoice | str | pa.Schema | pa.DataType | None = None) -> Format:
    """Create the format of that name.

    ``schema`` is a schema in Spark's DDL or Arrow's types, or a `SchemaChoice` with more options. Raises
    ConfigError, and the errors of the registry's client if a registry is used.
    """
    choice = schema if isinstance(schema, SchemaChoice) else SchemaChoice(schema)
    if name not in FORMAT_NAMES:
        raise ConfigError(f"unknown format {name!r}: expected one of {', '.join(FORMAT_NAMES)}")
    if name in REGISTERED:
        return _registered(name, choice)
    if (choice.subject, choice.version, choice.message) != (None, None, None):
        raise ConfigError(f"the format {name!r} has no subject, version or message in a registry")
    if choice.schema is not None and name not in _WITH_SCHEMA:
        raise ConfigError(f"the format {name!r} takes no schema, only {', '.join(_WITH_SCHEMA)} does")
    return FORMATS[name](_arrow_schema(choice.schema))


def make_fitting(name: str, choice: SchemaChoice, fits: Callable[[pa.DataType], bool]) -> Format:
    """Create a format with `make_format`, or with an older version of the schema if the latest doesn't fit.

    The newest version that fits is used. A schema may be registered between the planning of a query, which
    fixed its columns, and its start.
    """
    made = make_format(name, choice)
    if fits(made.type) or name not in REGISTERED or choice.schema is not None or choice.version is not None:
        return made
    from penstock.arrow.registered import versions_of

    for version in reversed(versions_of(choice)):
        earlier = make_format(name, replace(choice, version=version))
        if fits(earlier.type):
            return earlier
    return made


def _arrow_schema(schema: str | pa.Schema | pa.DataType | None) -> pa.DataType | None:
    if isinstance(schema, str):
        try:
            schema = parse_ddl(schema)
        except ValueError as problem:
            raise ConfigError(f"invalid schema {schema!r}: expected {problem}") from None
    return pa.struct(list(schema)) if isinstance(schema, pa.Schema) else schema


def _registered(name: str, choice: SchemaChoice) -> Format:
    try:
        from penstock.arrow.registered import make_registered
    except ImportError as error:
        raise ConfigError(
            f"the format {name!r} needs a package that is not installed ({error}): pip install "
            "'penstock[registry]'"
        ) from error
    if choice.schema is not None and not isinstance(choice.schema, str):
        raise ConfigError(
            f"the format {name!r} takes its schema as a text, found {type(choice.schema).__name__}"
        )
    if choice.schema is not None and (choice.subject, choice.version) != (None, None):
        raise ConfigError(
            f"the format {name!r} has both a given schema and one of a registry: the text and the subject "
            "or version exclude each other"
        )
    if choice.message is not None and name != "protobuf":
        raise ConfigError(f"the format {name!r} has no messages to choose from, only protobuf has")
    return make_registered(name, choice)


# --- columns of bytes ---------------------------------------------------------------------------------------


def _gather(data: np.ndarray, starts: np.ndarray, width: int) -> np.ndarray:
    """Return the ``width`` bytes after each start, one row each."""
    if len(starts) and starts[-1] - starts[0] == width * (len(starts) - 1):  # adjacent values need no copy
        return data[starts[0] : starts[-1] + width].reshape(len(starts), width)
    return data[starts[:, None] + np.arange(width)]


def _numbers(numbers: np.ndarray, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _fixed_texts(letters: np.ndarray) -> pa.Array:
    bounds = np.arange(len(letters) + 1, dtype=np.int32) * _UUID_LETTERS
    return pa.StringArray.from_buffers(len(letters), pa.py_buffer(bounds), pa.py_buffer(letters.tobytes()))


def _without(column: pa.Array, rows: Mapping[int, str]) -> pa.Array:
    mask = np.zeros(len(column), bool)
    mask[list(rows)] = True
    return pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)


def _utf8_problem(value: pa.BinaryScalar) -> str | None:
    if not value.is_valid:
        return None
    found = value.as_py()
    try:
        found.decode()
    except UnicodeDecodeError as problem:
        return f"expected UTF-8, found {shown(found)} ({problem.reason} at byte {problem.start})"
    return None


def _uuid_letters(numbers: np.ndarray) -> np.ndarray:
    """Format rows of 16 bytes as rows of 36 letters."""
    letters = np.full((len(numbers), _UUID_LETTERS), ord("-"), np.uint8)
    places = [place for place in range(_UUID_LETTERS) if place not in _DASHES_AT]
    letters[:, places[0::2]] = _HEX[numbers >> 4]
    letters[:, places[1::2]] = _HEX[numbers & 0xF]
    return letters


_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_LOWER: Final = np.frombuffer(bytes(range(256)).lower(), np.uint8)
_IS_HEX: Final = np.isin(np.arange(256), _HEX)
_UUID_SHAPE: Final = np.array(
    [ord("-") if place in _DASHES_AT else 0 for place in range(_UUID_LETTERS)], np.uint8
)
