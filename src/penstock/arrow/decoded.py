"""The interface of formats, their result, and helpers that they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

_SHOWN_BYTES: Final = 32


class Decoded(NamedTuple):
    """A decoded column of the format's type, null where the bytes were null or bad.

    ``bad`` maps a row to its problem.
    """

    array: pa.Array
    bad: Mapping[int, str]


class Format(Protocol):
    """A way to read a column of bytes. Instances are immutable and can be pickled."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> pa.DataType: ...

    @property
    def is_slow(self) -> bool:
        """Whether decoding takes so long, compared with all other work, that several threads pay off."""
        ...

    def decode(self, column: pa.BinaryArray) -> Decoded: ...


def valid_rows(column: pa.Array) -> np.ndarray:
    """Return a mask of the rows that are not null."""
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)


def spans(column: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the start and length of each value, and the bytes of the column. A null has length 0."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    bytes_of = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    lengths = np.diff(bounds)
    if column.null_count:
        lengths = np.where(valid_rows(column), lengths, 0)
    return bounds[:-1].astype(np.int64), lengths, bytes_of


def spread(values: pa.Array, rows: np.ndarray, count: int) -> pa.Array:
    """Return a column of ``count`` rows with ``values`` in ``rows`` and null elsewhere."""
    if len(rows) == count:
        return values
    places = np.zeros(count, np.int64)
    places[rows] = np.arange(len(rows))
    absent = np.ones(count, bool)
    absent[rows] = False
    return values.take(pa.array(places, mask=absent))


def shown(value: bytes) -> str:
    """Describe a value in an error message by its size and first bytes."""
    cut = "" if len(value) <= _SHOWN_BYTES else "…"
    return f"{len(value)} bytes {value[:_SHOWN_BYTES]!r}{cut}"
