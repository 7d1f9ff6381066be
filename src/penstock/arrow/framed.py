"""Values that begin with the id of their schema: a zero byte, the id in four, big endian, then the data.

A batch is read id by id, each with what its schema needs; mostly there is one.
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

# Reads the data from each start on, so many bytes of it: starts rise.
ReadSpans: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray], Decoded]


class NoProjection(ValueError):
    """What was written with a schema can't be read as it should be; says why."""


def read_whole(column: pa.BinaryArray, kind: pa.DataType, read: ReadSpans) -> Decoded:
    """Values without a prefix, all of one schema."""
    starts, lengths, data = spans(column)
    rows = np.flatnonzero(valid_rows(column))
    found = read(data, starts[rows], lengths[rows].astype(np.int64))
    return _placed([(rows, found)], len(column), kind, {})


def read_framed(column: pa.BinaryArray, kind: pa.DataType, reader_of: Callable[[int], ReadSpans]) -> Decoded:
    """``reader_of`` gives what reads data of an id, or raises NoProjection."""
    starts, lengths, data = spans(column)
    lengths = lengths.astype(np.int64)
    is_valid = valid_rows(column)
    framed = np.flatnonzero(is_valid & (lengths >= PREFIX_BYTES))
    if len(framed):  # ids are positive: four bytes with a sign
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
    """Pieces of a column, each with the rows that it is for, together."""
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
    """A column of the bytes from each start on; starts rise."""
    if not len(starts):
        return pa.array([], pa.binary())
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + lengths
    # Every other value is a gap between two that are wanted.
    with_gaps = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return with_gaps.take(pa.array(np.arange(0, len(bounds) - 1, 2)))
