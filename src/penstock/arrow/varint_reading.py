"""Read varints at many places at once: seven bits in each byte, the lowest first."""

from __future__ import annotations

from typing import Final

import numpy as np

BYTES_MAX: Final = 10


def read_varints(data: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return unsigned numbers, their sizes in bytes, and the indexes of those that are too long for a varint.

    All places must lie in the data. The caller checks whether a number's bytes all belong to its row.
    """
    first = data[at]
    found = (first & 0x7F).astype(np.uint64)
    sizes = np.ones(len(at), np.int64)
    more = np.flatnonzero(first & 0x80)
    for place in range(1, BYTES_MAX):
        if not len(more):
            break
        next_bytes = data[np.minimum(at[more] + place, len(data) - 1)]
        found[more] |= (next_bytes & 0x7F).astype(np.uint64) << np.uint64(7 * place)
        sizes[more] += 1
        more = more[next_bytes >= 0x80]
    return found, sizes, more


def unzigzag(numbers: np.ndarray) -> np.ndarray:
    """Convert unsigned numbers to the signed ones that they encode."""
    signs = -(numbers & np.uint64(1)).astype(np.int64)
    found: np.ndarray = (numbers >> np.uint64(1)).astype(np.int64) ^ signs
    return found


def numbers_at(data: np.ndarray, dtype: str, starts: np.ndarray) -> np.ndarray:
    """Return fixed-size numbers at any places; a place beyond the data reads its last bytes."""
    count = len(data) - np.dtype(dtype).itemsize + 1
    everywhere = np.ndarray((count,), dtype, data.data, strides=(1,))
    numbers: np.ndarray = everywhere[np.minimum(starts, count - 1)]
    return numbers
