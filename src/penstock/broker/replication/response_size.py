"""How much a follower asks its leader for at once: what comes within some milliseconds.

An answer of megabytes has left the processor's cache before it is appended, and costs a third more. But each
answer is waited for on the way, so where that is long they have to be large.
"""

from __future__ import annotations

from typing import Final

LEAST_BYTES: Final = 1024 * 1024
NEAR_S: Final = 0.01
FAR_S: Final = 0.02


class ResponseSize:
    """Between `LEAST_BYTES` and `most_bytes`, after what the last answers took."""

    __slots__ = ("bytes", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        """`replica.fetch.response.max.bytes`."""
        self.bytes = min(LEAST_BYTES, most_bytes)

    def answered(self, took_s: float, size_bytes: int) -> None:
        """An answer came so long after its request. One that is not full says nothing: the leader waited."""
        if 2 * size_bytes < self.bytes:
            return
        if took_s > FAR_S:
            self.bytes = min(2 * self.bytes, self.most_bytes)
        elif took_s < NEAR_S:
            self.bytes = max(self.bytes // 2, min(LEAST_BYTES, self.most_bytes))
