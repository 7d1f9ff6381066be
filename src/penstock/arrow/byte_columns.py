"""Build columns of bytes without a loop over rows, for the writers of binary formats."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.encoding import Unwritable, at_path

_VARINT_BYTES_MAX: Final = 10
_DOUBLE: Final = pa.float64()
_NOTHING: Final = pa.scalar(b"", pa.binary())


def varints(numbers: np.ndarray) -> pa.BinaryArray:
    """Encode unsigned numbers with seven bits in each byte, the lowest first.

    Negative numbers are encoded as 64 bits.
    """
    left = numbers.astype(np.int64, copy=False).view(np.uint64) if numbers.dtype.kind == "i" else numbers
    left = left.astype(np.uint64)
    data = np.empty((len(left), _VARINT_BYTES_MAX), np.uint8)
    sizes = np.ones(len(left), np.int64)
    width = 1
    for place in range(_VARINT_BYTES_MAX):
        rest = left >> np.uint64(7)
        more = rest > 0
        data[:, place] = (left & np.uint64(0x7F)) | (more.astype(np.uint64) << np.uint64(7))
        width = place + 1
        if not more.any():
            break
        sizes += more
        left = rest
    return trimmed(data[:, :width], sizes)


def zigzag(numbers: np.ndarray) -> np.ndarray:
    """Convert signed numbers to unsigned ones that are small near zero."""
    signed = numbers.astype(np.int64)
    return ((signed << 1) ^ (signed >> 63)).view(np.uint64)


def varint(number: int) -> bytes:
    """Encode one unsigned number."""
    found: bytes = varints(np.array([number], np.uint64))[0].as_py()
    return found


def little_endian(numbers: np.ndarray) -> pa.BinaryArray:
    """Encode each number in as many bytes as its type has."""
    size = numbers.dtype.itemsize
    little = np.ascontiguousarray(numbers).astype(numbers.dtype.newbyteorder("<"))
    return of_rows(little.view(np.uint8).reshape(-1, size))


def of_rows(data: np.ndarray) -> pa.BinaryArray:
    """Return a column with one value for each row of bytes."""
    rows, size = data.shape
    bounds = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    return _from(bounds, pa.py_buffer(data.tobytes()))


def trimmed(data: np.ndarray, sizes: np.ndarray) -> pa.BinaryArray:
    """Return a column with the first ``sizes`` bytes of each row."""
    bounds = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    return _from(bounds, pa.py_buffer(data[np.arange(data.shape[1]) < sizes[:, None]]))


def joined(*parts: pa.Array | pa.Scalar) -> pa.BinaryArray:
    """Concatenate columns row by row; a scalar counts for every row."""
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _NOTHING)


def constant(data: bytes) -> pa.Scalar:
    """Return a scalar for `joined`, which puts the same bytes into every row."""
    return pa.scalar(data, pa.binary())


def lengths(column: pa.Array) -> np.ndarray:
    """Return the number of bytes of each value."""
    found: np.ndarray = pc.binary_length(column).to_numpy(zero_copy_only=False)
    return found


def grouped(items: pa.BinaryArray, offsets: np.ndarray) -> pa.BinaryArray:
    """Concatenate the items of each list into one value.

    List n has the items from ``offsets[n]`` to ``offsets[n + 1]``, counted from the first item of the first
    list.
    """
    return _from(_bounds(items)[offsets - offsets[0]], _data(items))


def placed(values: pa.BinaryArray, rows: np.ndarray, count: int) -> pa.BinaryArray:
    """Return a column of ``count`` rows with ``values`` in the ascending ``rows``, and no bytes elsewhere."""
    if len(rows) == count:
        return values
    bounds = _bounds(values)
    sizes = np.zeros(count, np.int32)
    sizes[rows] = np.diff(bounds)
    spread = np.full(count + 1, bounds[0], np.int32)
    spread[1:] += np.cumsum(sizes, dtype=np.int32)
    return _from(spread, _data(values))


def list_items(column: pa.ListArray | pa.MapArray, values: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Return the offsets of a column's lists, and the part of ``values`` that lies in them."""
    offsets = column.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets, values.slice(first, last - first)


def reals(column: pa.Array, path: str, kind: pa.DataType = _DOUBLE) -> np.ndarray:
    """Convert numbers to floating point. Raises Unwritable if one has no exact representation."""
    try:
        found: np.ndarray = column.cast(kind).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise Unwritable(
            f"{at_path(path)} has a number that {kind} can't represent: cast it if rounding is acceptable"
        ) from None
    return found


def _bounds(column: pa.BinaryArray) -> np.ndarray:
    _, bounds, _ = column.buffers()
    if not len(column):
        return np.zeros(1, np.int32)
    return np.frombuffer(bounds, np.int32, len(column) + 1, 4 * column.offset)


def _data(column: pa.BinaryArray) -> pa.Buffer:
    return column.buffers()[2] or pa.py_buffer(b"")


def _from(bounds: np.ndarray, data: pa.Buffer) -> pa.BinaryArray:
    return pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds.astype(np.int32, copy=False)), data]
    )
