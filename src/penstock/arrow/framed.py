"""Values with a prefix that contains the id of their schema: a zero byte, four bytes of id, then the data.

The id is big endian. A batch is read one id at a time, each with its own reader; most batches have only one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.arrow.decoded import Decoded, shown, spans, spread, valid_rows

PREFIX_BYTES: Final = 5
_MAGIC: Final = 0
_WEIGHTS: Final = np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64)

# Reads the data at the given starts and lengths; starts are ascending.
ReadSpans: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray], Decoded]


class NoProjection(ValueError):
    """Data of a writer's schema can't be read with the reader's schema; the message says why."""


def read_whole(column: pa.BinaryArray, kind: pa.DataType, read: ReadSpans) -> Decoded:
    """Read values without a prefix, all of one schema."""
    starts, lengths, data = spans(column)
    rows = np.flatnonzero(valid_rows(column))
    found = read(data, starts[rows], lengths[rows].astype(np.int64))
    return _placed([(rows, found)], len(column), kind, {})


def read_framed(column: pa.BinaryArray, kind: pa.DataType, reader_of: Callable[[int], ReadSpans]) -> Decoded:
    """Read values with a prefix; ``reader_of`` returns the reader of an id or raises NoProjection."""
    starts, lengths, data = spans(column)
    lengths = lengths.astype(np.int64)
    is_valid = valid_rows(column)
    framed = np.flatnonzero(is_valid & (lengths >= PREFIX_BYTES))
    if len(framed):  # ids are positive signed 32-bit numbers
        framed = framed[(data[starts[framed]] == _MAGIC) & (data[starts[framed] + 1] < 0x80)]
    is_framed = np.zeros(len(column), bool)
    is_framed[framed] = True
    bad = {
        int(row): "expected a zero byte and the id of a schema in four, found "
        + shown(column[int(row)].as_py())
        for row in np.flatnonzero(is_valid & ~is_framed)
    }
    ids = data[starts[framed][:, None] + np.arange(1, PREFIX_BYTES)] @ _WEIGHTS
    pieces: list[tuple[np.ndarray, Decoded]] = []
    for schema_id in np.unique(ids).tolist():
        rows = framed[ids == schema_id]
        try:
            read = reader_of(schema_id)
        except NoProjection as problem:
            bad |= dict.fromkeys(rows.tolist(), f"it has the schema id {schema_id}: {problem}")
            continue
        found = read(data, starts[rows] + PREFIX_BYTES, lengths[rows] - PREFIX_BYTES)
        bad |= {int(rows[row]): f"{why} (schema id {schema_id})" for row, why in found.bad.items()}
        pieces.append((rows, found._replace(bad={})))
    return _placed(pieces, len(column), kind, bad)


def _placed(
    pieces: list[tuple[np.ndarray, Decoded]], count: int, kind: pa.DataType, bad: dict[int, str]
) -> Decoded:
    """Combine the pieces of a column, each given with its rows."""
    for rows, found in pieces:
        bad |= {int(rows[row]): why for row, why in found.bad.items()}
    if not pieces:
        return Decoded(pa.nulls(count, kind), bad)
    if len(pieces) == 1:
        rows, found = pieces[0]
        return Decoded(spread(found.array, rows, count), bad)
    order = np.concatenate([rows for rows, _ in pieces])
    together = pa.concat_arrays([found.array for _, found in pieces])
    by_row = np.argsort(order, kind="stable")
    return Decoded(spread(together.take(pa.array(by_row)), order[by_row], count), bad)


def cut(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> pa.BinaryArray:
    """Return a column of the bytes at the given starts and lengths; starts are ascending."""
    if not len(starts):
        return pa.array([], pa.binary())
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + lengths
    # Every second value is a gap between two values of the result.
    with_gaps = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return with_gaps.take(pa.array(np.arange(0, len(bounds) - 1, 2)))
