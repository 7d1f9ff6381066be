"""A sketch of bounded size that counts the distinct values of a group.

The sketch stores the hashes of the first values, so that small groups are counted exactly. Above HASHES_MAX
hashes it becomes a HyperLogLog (Flajolet et al. 2007) of 16,384 registers, as in ksqlDB. Each register holds
the length of the longest run of leading zeros of its hashes. The estimate (Ertl, arXiv:1702.01284) typically
has an error of 0.8 %.
"""

from __future__ import annotations

import math
from array import array
from hashlib import blake2b
from typing import Any, Final

import msgspec

EMPTY: Final = b""
HASHES_MAX: Final = 512
_HASH_BITS: Final = 64
_REGISTER_BITS: Final = 14
_REGISTERS: Final = 1 << _REGISTER_BITS
_RANK_MAX: Final = _HASH_BITS - _REGISTER_BITS + 1
_HASHES_BYTES_MAX: Final = HASHES_MAX * _HASH_BITS // 8


def added(sketch: bytes, value: Any) -> bytes:
    """Add a value, and return the new sketch."""
    return _with(sketch, [_hash_of(value)])


def merged(one: bytes, other: bytes) -> bytes:
    if not _is_exact(one) and not _is_exact(other):
        return bytes(map(max, one, other))
    if _is_exact(one):
        one, other = other, one
    return _with(one, _hashes(other))


def estimate(sketch: bytes) -> int:
    """Estimate the number of distinct values."""
    if _is_exact(sketch):
        return len(_hashes(sketch))
    counts = [0] * (_RANK_MAX + 1)
    left, rank = _REGISTERS, 0
    while left:  # high ranks are rare, so this usually ends early
        counts[rank] = sketch.count(rank)
        left -= counts[rank]
        rank += 1
    total = _REGISTERS * _tau(1 - counts[-1] / _REGISTERS)
    for rank in range(_RANK_MAX - 1, 0, -1):
        total = (total + counts[rank]) / 2
    total += _REGISTERS * _sigma(counts[0] / _REGISTERS)
    return round(_REGISTERS * _REGISTERS / (2 * math.log(2) * total))


def _with(sketch: bytes, hashes: list[int]) -> bytes:
    if _is_exact(sketch):
        known = _hashes(sketch)
        known += [each for each in hashes if each not in known]
        if len(known) <= HASHES_MAX:
            return array("Q", known).tobytes()
        sketch, hashes = bytes(_REGISTERS), known
    registers = bytearray(sketch)
    for each in hashes:
        place, rest = each >> (_HASH_BITS - _REGISTER_BITS), each & ((1 << (_HASH_BITS - _REGISTER_BITS)) - 1)
        rank = _RANK_MAX - rest.bit_length()
        if rank > registers[place]:
            registers[place] = rank
    return bytes(registers)


def _is_exact(sketch: bytes) -> bool:
    return len(sketch) <= _HASHES_BYTES_MAX


def _hashes(sketch: bytes) -> list[int]:
    return array("Q", sketch).tolist()


def _hash_of(value: Any) -> int:
    data = msgspec.msgpack.encode(value, order="sorted")
    return int.from_bytes(blake2b(data, digest_size=_HASH_BITS // 8).digest())


def _sigma(x: float) -> float:
    """The term of the estimate for empty registers."""
    if x == 1:
        return math.inf
    total, power, before = x, 1.0, -1.0
    while total != before:
        x *= x
        before = total
        total += x * power
        power *= 2
    return total


def _tau(x: float) -> float:
    """The term of the estimate for full registers."""
    if x in (0, 1):
        return 0.0
    total, power, before = 1 - x, 1.0, -1.0
    while total != before:
        x = math.sqrt(x)
        before = total
        power /= 2
        total -= (1 - x) ** 2 * power
    return total / 3
