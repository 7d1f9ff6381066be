"""The map that holds all state: from bytes to bytes, ordered by key, with a record of its changes.

A task has one map for each of its stores. The component that persists state calls `OrderedBytes.take_delta`
after each batch (for the state log and the changelog), and restores the state with `OrderedBytes.apply`.

The map is a dict; the first range query adds the sorted keys. A store that is only read key by key, which is
the usual case, does not pay for order. 1 M keys of 10 bytes with values of 16 bytes take about 150 MB; the
sorted keys take 15 MB more, and a delta that contains all of them 35 MB more.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Final

_CHUNK: Final = 512
"""Keys per chunk after a split.

A chunk is split at twice this size, so that an insertion moves at most that many pointers.
"""


class _SortedKeys:
    """Sorted keys in chunks, with the greatest key of each chunk."""

    __slots__ = ("chunks", "maxima")

    def __init__(self, ordered: list[bytes]) -> None:
        self.chunks = [ordered[at : at + _CHUNK] for at in range(0, len(ordered), _CHUNK)]
        self.maxima = [chunk[-1] for chunk in self.chunks]

    def add(self, key: bytes) -> None:
        """Insert a key that is not present yet."""
        at = bisect_left(self.maxima, key)
        if at == len(self.maxima):
            if not at:
                self.chunks.append([key])
                self.maxima.append(key)
                return
            at -= 1
            chunk = self.chunks[at]
            chunk.append(key)
            self.maxima[at] = key
        else:
            chunk = self.chunks[at]
            insort(chunk, key)
        if len(chunk) > 2 * _CHUNK:
            self.chunks[at : at + 1] = chunk[:_CHUNK], chunk[_CHUNK:]
            self.maxima[at : at + 1] = chunk[_CHUNK - 1], chunk[-1]

    def remove(self, key: bytes) -> None:
        """Remove a key that is present."""
        at = bisect_left(self.maxima, key)
        chunk = self.chunks[at]
        del chunk[bisect_left(chunk, key)]
        if not chunk:
            del self.chunks[at], self.maxima[at]
        elif self.maxima[at] == key:
            self.maxima[at] = chunk[-1]

    def first(self, low: bytes) -> bytes | None:
        """Return the least key that is not below ``low``."""
        at = bisect_left(self.maxima, low)
        if at == len(self.maxima):
            return None
        chunk = self.chunks[at]
        return chunk[bisect_left(chunk, low)]

    def some(self, low: bytes | None, high: bytes | None, limit: int, reverse: bool) -> list[bytes]:
        """Return the first ``limit`` keys of `between`, or its last ones in reverse, without walking all."""
        found: list[bytes] = []
        chunks, maxima = self.chunks, self.maxima
        if reverse:
            at = len(chunks) - 1 if high is None else min(bisect_left(maxima, high), len(chunks) - 1)
            while at >= 0 and len(found) < limit:
                chunk = chunks[at]
                end = len(chunk) if high is None else bisect_left(chunk, high)
                start = 0 if low is None else bisect_left(chunk, low)
                found += chunk[max(start, end - limit + len(found)) : end][::-1]
                if start:
                    break
                at -= 1
            return found
        at = 0 if low is None else bisect_left(maxima, low)
        while at < len(chunks) and len(found) < limit:
            chunk = chunks[at]
            start = 0 if low is None else bisect_left(chunk, low)
            end = len(chunk) if high is None else bisect_left(chunk, high)
            found += chunk[start : min(end, start + limit - len(found))]
            if end < len(chunk):
                break
            at += 1
        return found

    def between(self, low: bytes | None, high: bytes | None) -> list[bytes]:
        """Return the keys with ``low <= key < high``, in order; None leaves a side open."""
        chunks, maxima = self.chunks, self.maxima
        first = 0 if low is None else bisect_left(maxima, low)
        last = len(chunks) - 1 if high is None else min(bisect_left(maxima, high), len(chunks) - 1)
        if first > last:
            return []
        start = 0 if low is None else bisect_left(chunks[first], low)
        end = len(chunks[last]) if high is None else bisect_left(chunks[last], high)
        if first == last:
            return chunks[first][start:end]
        keys = chunks[first][start:]
        for chunk in chunks[first + 1 : last]:
            keys += chunk
        keys += chunks[last][:end]
        return keys


class OrderedBytes:
    """A map ``bytes -> bytes`` with ranges in key order and the changes since the last `take_delta`.

    ``data`` may be read directly (``data.get`` is the fastest way to a value). Writes must go through `put`
    and `delete`, otherwise the delta does not contain them.
    """

    __slots__ = ("_delta", "_sorted", "data")

    def __init__(self, items: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.data: dict[bytes, bytes] = dict(items)
        self._delta: dict[bytes, bytes | None] = {}
        self._sorted: _SortedKeys | None = None

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, key: bytes) -> bool:
        return key in self.data

    def get(self, key: bytes) -> bytes | None:
        return self.data.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        if self._sorted is not None and key not in self.data:
            self._sorted.add(key)
        self.data[key] = self._delta[key] = value

    def delete(self, key: bytes) -> None:
        """Remove the key if it is present. Deleting an absent key does not change the delta."""
        if self.data.pop(key, None) is None:
            return
        if self._sorted is not None:
            self._sorted.remove(key)
        self._delta[key] = None

    def scan(
        self,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the entries with ``low <= key < high`` in key order; None leaves a side open.

        ``limit`` is the maximum number of entries; the cost depends on it and not on the range. The range is
        fixed at the call: the map may change during the iteration, which skips entries that are deleted
        meanwhile.
        """
        if limit is not None:
            return self._entries(self._in_order().some(low, high, limit, reverse))
        keys = self._in_order().between(low, high)
        if reverse:
            keys.reverse()
        return self._entries(keys)

    def _in_order(self) -> _SortedKeys:
        if self._sorted is None:
            self._sorted = _SortedKeys(sorted(self.data))
        return self._sorted

    def set_order(self, keys: list[bytes]) -> None:
        """Take over the map's keys, each once, from a caller that has already sorted them."""
        self._sorted = _SortedKeys(keys)

    def _entries(self, keys: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
        data = self.data
        for key in keys:
            value = data.get(key)
            if value is not None:
                yield key, value

    def first(self, low: bytes = b"", high: bytes | None = None) -> bytes | None:
        """Return the least key with ``low <= key < high``, or None, without walking the range."""
        key = self._in_order().first(low)
        return None if key is None or (high is not None and key >= high) else key

    def prefix(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the entries whose keys begin with ``prefix``."""
        return self.scan(prefix, after_prefix(prefix))

    def take_delta(self) -> dict[bytes, bytes | None]:
        """Return the changes since the last call, by key; None is a deletion.

        A key that was both put and deleted since then is included.
        """
        delta = self._delta
        self._delta = {}
        return delta

    @property
    def delta(self) -> dict[bytes, bytes | None]:
        """The changes that `take_delta` would return now; read-only."""
        return self._delta

    def apply(self, delta: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Apply changes that are already persisted elsewhere, such as restored ones; the delta ignores them.

        If the keys are sorted, they stay sorted.
        """
        data, ordered = self.data, self._sorted
        for key, value in delta:
            if value is None:
                if data.pop(key, None) is not None and ordered is not None:
                    ordered.remove(key)
            else:
                if ordered is not None and key not in data:
                    ordered.add(key)
                data[key] = value


class TimedBytes(OrderedBytes):
    """An ordered map whose entries have times; it tracks the greatest time and lets old entries expire.

    Args:
        time_of: the time of an entry, from its key and value, in milliseconds, 0 or more.
        segment_ms: entries are tracked, and expire, in spans of this length; 0: they don't expire.
        moves: whether putting a key again may change its time; otherwise the time is part of the key.
    """

    __slots__ = ("_expired", "_segments", "latest_ms", "moves", "segment_ms", "time_of")

    def __init__(
        self, time_of: Callable[[bytes, bytes], int], segment_ms: int = 0, *, moves: bool = False
    ) -> None:
        super().__init__()
        self.time_of = time_of
        self.segment_ms = segment_ms
        self.moves = moves
        self.latest_ms = -1
        """The greatest time ever put; -1 before the first."""
        self._segments: dict[int, list[bytes]] = {}
        self._expired = 0

    def put(self, key: bytes, value: bytes) -> None:
        if self.moves or key not in self.data:
            self._track(key, value)
        super().put(key, value)

    def apply(self, delta: Iterable[tuple[bytes, bytes | None]]) -> None:
        changes = list(delta)
        for key, value in changes:
            if value is not None:
                self._track(key, value)
        super().apply(changes)

    def _track(self, key: bytes, value: bytes) -> None:
        time_ms = self.time_of(key, value)
        if time_ms > self.latest_ms:
            self.latest_ms = time_ms
        if not self.segment_ms:
            return
        segment, old = time_ms // self.segment_ms, self.data.get(key)
        if old is None or self.time_of(key, old) // self.segment_ms != segment:
            self._segments.setdefault(segment, []).append(key)

    def expire(self, before_ms: int) -> None:
        """Delete the segments that lie entirely before this time. A repeated call costs little."""
        end = before_ms // self.segment_ms
        if end <= self._expired:
            return
        self._expired = end
        for segment in [number for number in self._segments if number < end]:
            for key in self._segments.pop(segment):
                value = self.data.get(key)
                if value is not None and self.time_of(key, value) // self.segment_ms == segment:
                    self.delete(key)


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the least key above all keys that begin with ``prefix``; None if there is none."""
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes([stripped[-1] + 1])


def after(key: bytes) -> bytes:
    """Return the least key above ``key``, to turn an inclusive end into an exclusive one."""
    return key + b"\x00"
