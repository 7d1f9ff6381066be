"""The state of one partition as a log: Spark's state store keeps it, and workers check their maps against it.

Each store has a chain of **segments**. A batch appends its changes; when the chain has grown to a multiple of
the state, a batch starts it again with segments that hold the whole store. Segments are pages of at most
`SEGMENT_BYTES`, because the cost of larger values in the state store grows more than in proportion.

A worker keeps maps in memory across batches, although the changes that count may be those of another attempt
on another worker. Every segment therefore carries a token, and that of the segment before it. Maps whose last
token is not in the chain are ahead of it or beside it, and are read again. A chain that is not consistent is
damaged, and the error says where.

A token is a digest of the segment and of the previous token. Two attempts that did the same thus have the
same tokens. They need that: when executors die, Spark's store may continue with one attempt's files on a
worker's disk although it has kept the other's file in the checkpoint.

Pure: `Pages` is the interface to the storage of segments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple, Protocol

import numpy as np

from penstock.spark.streams.blocks.packing import Binary
from penstock.topology.stores.ordered_bytes import OrderedBytes

SEGMENT_BYTES: Final = 256 << 10
"""The largest size of a segment, beyond which values cost the state store more than in proportion."""
CHANGES_MIN_BYTES: Final = 128 << 10
"""The size of changes below which a chain is never rewritten."""
CHANGES_PER_WHOLE: Final = 2
"""The size of changes beyond which a chain is rewritten, as a multiple of the last whole store."""

TOKEN_BYTES: Final = 8
_NO_TOKEN: Final = bytes(TOKEN_BYTES)
_HEAD: Final = Struct("<8s8sII")  # previous token, own token, entries, size of the keys
_COUNTS: Final = Struct("<II")  # the same without the tokens
_META: Final = b"meta"
_VERSION: Final = 1
_ENTRY_BYTES: Final = 8

Delta = Mapping[bytes, "bytes | None"]


class Changes(NamedTuple):
    """A batch's changes in a store, in columns: keys, and the values of the same rows (null: deleted)."""

    keys: Binary
    values: Binary

    @classmethod
    def of(cls, delta: Delta) -> Changes:
        return cls(Binary.of(list(delta)), Binary.of(list(delta.values())))


class StateDamaged(Exception):
    """The content of the state store is not a complete chain of segments."""


class Pages(Protocol):
    """A store of values by key that becomes durable with the batch."""

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values in the order of the keys; None for a key without a value."""
        ...

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> None: ...

    def remove(self, keys: Sequence[bytes]) -> None: ...


@dataclass(frozen=True, slots=True)
class Chain:
    """One store's segments, from ``first`` up to but not including ``end``. ``token`` is that of the last.

    ``whole_bytes`` is the size of the segments that began the chain, ``changed_bytes`` that of later ones.
    """

    first: int = 0
    end: int = 0
    token: bytes = _NO_TOKEN
    whole_bytes: int = 0
    changed_bytes: int = 0

    @property
    def is_long(self) -> bool:
        return self.changed_bytes > max(CHANGES_MIN_BYTES, CHANGES_PER_WHOLE * self.whole_bytes)


@dataclass(slots=True)
class GroupState:
    """The stores of one partition after a batch: their content, and the ends of their chains."""

    maps: dict[str, OrderedBytes] = field(default_factory=dict)
    chains: dict[str, Chain] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """The size of the segments; the maps in memory take a multiple of it."""
        return sum(chain.whole_bytes + chain.changed_bytes for chain in self.chains.values())


NewMap = Callable[[str], OrderedBytes]


def load(pages: Pages, known: GroupState | None, new_map: NewMap) -> tuple[GroupState, bool]:
    """Return the state that ``pages`` hold, and whether it is ``known`` itself, unchanged.

    Changes that ``known`` lacks are read. A store for which it has changes that these pages never had is read
    from the start. ``new_map`` returns the empty map for a store. Raises StateDamaged.
    """
    chains = _read_meta(pages)
    if known is None:
        known = GroupState()
    elif known.chains == chains:
        return known, True
    maps = {name: _store(pages, name, chain, known, new_map) for name, chain in chains.items()}
    return GroupState(maps, chains), False


def append(
    pages: Pages, state: GroupState, changes: Mapping[str, Changes], rewrite: Iterable[str] = ()
) -> None:
    """Store the changes of a batch, which ``state.maps`` already contain.

    ``rewrite`` names stores to write as a whole.
    """
    whole = set(rewrite)
    puts: list[tuple[bytes, bytes]] = []
    removed: list[bytes] = []
    for name, changed_rows in changes.items():
        chain = state.chains.get(name, Chain())
        segments = list(_split(changed_rows))
        changed = chain.changed_bytes + sum(map(len, segments))
        grown = Chain(chain.first, chain.end, chain.token, chain.whole_bytes, changed)
        is_whole = name in whole or grown.is_long
        if is_whole:
            segments = list(_split(Changes.of(state.maps[name].data)))
            removed += [_segment_key(name, number) for number in range(chain.first, chain.end)]
        token, number = chain.token, chain.end
        for segment in segments:
            before, token = token, blake2b(token + segment, digest_size=TOKEN_BYTES).digest()
            puts.append((_segment_key(name, number), before + token + segment))
            number += 1
        if is_whole:
            state.chains[name] = Chain(chain.end, number, token, sum(map(len, segments)), 0)
        else:
            state.chains[name] = Chain(chain.first, number, token, chain.whole_bytes, changed)
    if changes:
        puts.append((_META, _meta(state.chains)))
        pages.put(puts)
        pages.remove(removed)


@dataclass(frozen=True, slots=True)
class _Segment:
    number: int
    before: bytes
    token: bytes
    data: bytes

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        _, _, count, keys_size = _HEAD.unpack_from(self.data)
        at = _HEAD.size
        lengths = np.frombuffer(self.data, np.int32, 2 * count, at)
        at += lengths.nbytes
        keys = Binary(lengths[:count], self.data[at : at + keys_size]).values()
        values = Binary(lengths[count:], self.data[at + keys_size :]).values()
        return list(zip((key or b"" for key in keys), values, strict=True))


def _store(pages: Pages, name: str, chain: Chain, known: GroupState, new_map: NewMap) -> OrderedBytes:
    had = known.chains.get(name)
    if had is not None and had.first == chain.first and had.end <= chain.end:
        entries = known.maps[name]
        segments = list(_segments(pages, name, range(had.end, chain.end)))
        if _end_of(name, segments, had.token) == chain.token:
            for segment in segments:
                entries.apply(segment.changes())
            return entries
    entries = new_map(name)
    segments = list(_segments(pages, name, range(chain.first, chain.end)))
    if _end_of(name, segments, None) != chain.token:
        raise StateDamaged(f"store {name} does not end with the segment that was its last one")
    for segment in segments:
        entries.apply(segment.changes())
    return entries


def _end_of(name: str, segments: Sequence[_Segment], token: bytes | None) -> bytes | None:
    """Follow segments from ``token`` (None: any) to their last token; None if they don't begin there."""
    for place, segment in enumerate(segments):
        if token is not None and segment.before != token:
            if place == 0:
                return None
            raise StateDamaged(f"segment {segment.number} of store {name} does not follow the one before it")
        token = segment.token
    return token


def _segments(pages: Pages, name: str, numbers: range) -> Iterator[_Segment]:
    for number, page in zip(numbers, pages.get([_segment_key(name, n) for n in numbers]), strict=True):
        if page is None:
            raise StateDamaged(
                f"segment {number} of store {name} is missing, of {numbers.start} to {numbers.stop - 1}"
            )
        if len(page) < _HEAD.size:
            raise StateDamaged(
                f"segment {number} of store {name} has {len(page)} bytes, expected {_HEAD.size} at least"
            )
        before, token, count, keys_size = _HEAD.unpack_from(page)
        if len(page) < _HEAD.size + 2 * 4 * count + keys_size:
            raise StateDamaged(f"segment {number} of store {name} is cut off after {len(page)} bytes")
        yield _Segment(number, before, token, page)


def _split(changes: Changes) -> Iterator[bytes]:
    """Yield segments without their tokens, at least one."""
    keys, values = changes
    rows = len(keys.lengths)
    key_ends, value_ends = (
        np.concatenate(([0], np.cumsum(column.sizes, dtype=np.int64))) for column in (keys, values)
    )
    ends = np.cumsum(keys.sizes.astype(np.int64) + values.sizes + _ENTRY_BYTES)
    first, size = 0, 0
    while True:
        last = max(first + 1, int(np.searchsorted(ends, size + SEGMENT_BYTES, side="right")))
        last = min(last, rows)
        yield b"".join(
            (
                _COUNTS.pack(last - first, int(key_ends[last] - key_ends[first])),
                keys.lengths[first:last].tobytes(),
                values.lengths[first:last].tobytes(),
                keys.data[key_ends[first] : key_ends[last]],
                values.data[value_ends[first] : value_ends[last]],
            )
        )
        if last == rows:
            return
        first, size = last, int(ends[last - 1])


def _segment_key(store: str, number: int) -> bytes:
    return b"%s\x00%s" % (store.encode(), number.to_bytes(8, "big"))


def _meta(chains: Mapping[str, Chain]) -> bytes:
    stores = {
        name: [chain.first, chain.end, chain.token.hex(), chain.whole_bytes, chain.changed_bytes]
        for name, chain in chains.items()
    }
    return json.dumps({"version": _VERSION, "stores": stores}).encode()


def _read_meta(pages: Pages) -> dict[str, Chain]:
    [data] = pages.get([_META])
    if data is None:
        return {}
    try:
        meta = json.loads(data)
        if meta["version"] > _VERSION:
            raise StateDamaged(
                f"the state is of version {meta['version']}, expected at most {_VERSION}: a newer "
                "release has written it"
            )
        return {
            name: Chain(first, end, bytes.fromhex(token), whole_bytes, changed_bytes)
            for name, (first, end, token, whole_bytes, changed_bytes) in meta["stores"].items()
        }
    except (ValueError, KeyError, TypeError):
        raise StateDamaged(f"the table of stores is damaged: {data[:80]!r}") from None
