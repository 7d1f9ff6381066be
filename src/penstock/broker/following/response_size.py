"""Choose how many bytes a follower requests from its leader at once: the longer the round trip, the more.

A response of several megabytes has left the processor's cache before it is appended, which makes that slower.
But the follower waits one round trip for each response, so on long routes responses have to be large.
"""

from __future__ import annotations

from typing import Final

NEAR_BYTES: Final = 1024 * 1024
NEAR_S: Final = 0.002
"""Up to this round trip a response has `NEAR_BYTES`; a longer one has proportionally more. So half a gigabyte
per second arrives at any distance."""


class ResponseSize:
    """The size of the next response, from `NEAR_BYTES` to `most_bytes`.

    It is based on the quickest response so far, because the leader did not hold that one.
    """

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
        """Take note that a response arrived `took_s` seconds after its request."""
        self._quickest_s = min(self._quickest_s, took_s)
