"""The transactions that a snapshot of PostgreSQL shows, by ``pg_current_snapshot()``. Pure.

The order of commits in the WAL, which the stream has, is not that in which transactions become visible: a
commit that waits for a synchronous standby is in the WAL, and perhaps in the stream, before other sessions
see it. Positions alone can therefore not tell whether a chunk contains a change; transaction ids can.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_EPOCH: Final = 2**32
_HALF: Final = 2**31


class Visibility(NamedTuple):
    """A snapshot: ids below ``xmax`` that are not in ``running`` had ended, with 64 bits each."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @staticmethod
    def of(text: str) -> Visibility:
        """Read ``xmin:xmax:running,…``."""
        xmin, xmax, running = text.split(":")
        return Visibility(int(xmin), int(xmax), frozenset(map(int, running.split(",") if running else ())))

    def shows(self, xid: int) -> bool:
        """Whether a transaction that has committed is visible; ``xid`` has 32 bits, as in the stream."""
        full = self.xmax - self.xmax % _EPOCH + xid
        if full - self.xmax >= _HALF:
            full -= _EPOCH
        elif self.xmax - full > _HALF:
            full += _EPOCH
        return full < self.xmax and full not in self.running
