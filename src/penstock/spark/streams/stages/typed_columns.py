"""Convert keys and values from their bytes to typed columns of DataFrames; the serde determines the type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.topology.errors import SerdeError
from penstock.topology.serdes import Serde, WindowedSerde, double, integer, json, long, string

_NUMBERS: Final[dict[str, tuple[DataType, str]]] = {
    integer.name: (IntegerType(), ">i4"),
    long.name: (LongType(), ">i8"),
    double.name: (DoubleType(), ">f8"),
}


class Column(NamedTuple):
    """A Spark type, and the function that makes its Arrow array from bytes."""

    type: DataType
    read: Callable[[pa.BinaryArray], pa.Array]


def column_of(serde: Serde[Any], what: str, schema: DataType | None = None) -> Column:
    """Return the column for a serde's values.

    Text, numbers and windowed keys have their own types. JSON has the type of ``schema``, or is text without
    one. The values of other serdes are binary. ``what`` names the column in errors. Raises SerdeError.
    """
    if schema is not None and serde is not json:
        raise SerdeError(f"only the serde json takes a schema; {what} has {serde.name}")
    if isinstance(serde, WindowedSerde):
        return _windowed(serde, what)
    if serde.name in _NUMBERS and serde is _builtin(serde.name):
        kind, layout = _NUMBERS[serde.name]
        return Column(kind, lambda data: _numbers(data, layout, to_arrow_type(kind), what))
    if serde is json and schema is not None:
        arrow = to_arrow_type(schema, timezone="UTC")
        return Column(schema, lambda data: _documents(data, arrow, what))
    if serde is string or serde is json:
        return Column(StringType(), lambda data: _text(data, what))
    return Column(BinaryType(), lambda data: data)


def _builtin(name: str) -> Serde[Any]:
    return {serde.name: serde for serde in (integer, long, double)}[name]


def _text(data: pa.BinaryArray, what: str) -> pa.Array:
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise SerdeError(f"{what} is not UTF-8: {error}") from None


def _numbers(data: pa.BinaryArray, layout: str, kind: pa.DataType, what: str) -> pa.Array:
    size = np.dtype(layout).itemsize
    present = data.drop_null()
    lengths = set(pc.binary_length(present).unique().to_pylist())
    if lengths - {size}:
        raise SerdeError(f"{what} has {size} bytes, found {sorted(lengths - {size})}")
    raw = b"".join(present.to_pylist())
    found = np.frombuffer(raw, layout).astype(np.dtype(layout).newbyteorder("="))
    whole = np.zeros(len(data), found.dtype)
    missing = np.asarray(data.is_null())
    whole[~missing] = found
    return pa.array(whole, kind, mask=missing)


def _documents(data: pa.BinaryArray, kind: pa.DataType, what: str) -> pa.Array:
    values = [None if one is None else json.deserialize(one) for one in data.to_pylist()]
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SerdeError(f"{what} does not fit its schema {kind}: {error}") from None


_WINDOW: Final = (("start", TimestampType()), ("end", TimestampType()))


def _windowed(serde: WindowedSerde[Any], what: str) -> Column:
    inner = column_of(serde.inner, what)
    kind = StructType(
        [StructField("key", inner.type), *(StructField(name, time, False) for name, time in _WINDOW)]
    )

    def read(data: pa.BinaryArray) -> pa.Array:
        stored = data.to_pylist()
        windows = [None if one is None else serde.deserialize(one).window for one in stored]
        keys = [None if one is None else one[: -serde.suffix_bytes] for one in stored]
        times = [
            pa.array([0 if w is None else w[at] * 1000 for w in windows], pa.timestamp("us", "UTC"))
            for at in (0, 1)
        ]
        return pa.StructArray.from_arrays(
            [inner.read(pa.array(keys, pa.binary())), *times],
            fields=list(to_arrow_type(kind, timezone="UTC")),
            mask=pa.array([one is None for one in stored]),
        )

    return Column(kind, read)
