"""How much a follower asks its leader for at once: the longer the way, the more.

An answer of megabytes has left the processor's cache before it is appended, and costs more for it. But every
answer is waited for on the way, so where that is long they have to be large.
"""

from __future__ import annotations

from typing import Final

NEAR_BYTES: Final = 1024 * 1024
NEAR_S: Final = 0.002
"""Up to this way answers have `NEAR_BYTES`, on longer ones as many times more: half a gigabyte per second
arrives on any."""


class ResponseSize:
    """From `NEAR_BYTES` to `most_bytes`, after the quickest answer so far: that one waited for nothing."""

    __slots__ = ("_most_bytes", "_quickest_s")

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes` is `replica.fetch.response.max.bytes`."""
        self._most_bytes = most_bytes
        self._quickest_s = float("inf")

    @property
    def bytes(self) -> int:
        times_near = max(1.0, self._quickest_s / NEAR_S)
        return int(min(NEAR_BYTES * times_near, self._most_bytes))

    def answered(self, took_s: float) -> None:
        """An answer came so long after its request."""
        self._quickest_s = min(self._quickest_s, took_s)
