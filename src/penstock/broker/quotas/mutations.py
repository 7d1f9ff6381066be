"""The quota of partitions that a client creates and deletes per second, on the active controller (KIP-599).

A token bucket admits bursts, as creating topics comes in bursts: a client that was idle for
`controller.quota.window.num` times `controller.quota.window.size.seconds` may use the tokens of that time at
once. A mutation is admitted whole while no token is owed, and may leave a debt. With a debt, a strict quota
refuses mutations by THROTTLING_QUOTA_EXCEEDED, as clients of newer versions expect. A permissive quota admits
them for older clients, and asks for a pause. Each controller counts for itself, as in Kafka.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.broker.quotas.limits import ClientLimit, ClientLimits
from penstock.broker.quotas.rate import THROTTLE_MS_MAX
from penstock.metadata.controller.state import Refusal
from penstock.metadata.image.client_quotas import CONTROLLER_MUTATION_RATE
from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.metadata.image.client_quotas import ClientQuotasImage

BUCKETS_MAX: Final = 10_000
"""The most buckets: beyond it, the least recently used one is dropped. Clients choose their ids."""

IDLE_MS_MAX: Final = 3_600_000
"""How long a bucket is kept after tokens were last taken, as in Kafka."""


class TokenBucket:
    """The tokens of the clients that share a limit. Each partition takes one."""

    __slots__ = ("burst_s", "rate", "taken", "throttles", "tokens", "updated_ms", "used_ms")

    def __init__(self, rate: float, burst_s: float, now_ms: int) -> None:
        self.rate = rate
        """The tokens that are added per second."""
        self.burst_s = burst_s
        self.tokens = rate * burst_s
        self.updated_ms = self.used_ms = now_ms
        self.taken = 0
        """The tokens that were taken ever since."""
        self.throttles = 0
        """Requests that were refused or asked to pause."""

    def tokens_at(self, now_ms: int) -> float:
        """The tokens at a time. It changes nothing, so any thread may ask."""
        added = self.rate * ((now_ms - self.updated_ms) / 1000)
        return min(self.rate * self.burst_s, self.tokens + added)

    def refill(self, now_ms: int) -> None:
        """Add the tokens of the time since the last call, up to those of `burst_s`."""
        self.tokens = self.tokens_at(now_ms)
        self.updated_ms = now_ms

    def take(self, count: int, now_ms: int) -> None:
        self.refill(now_ms)
        self.tokens -= count
        self.taken += count
        self.used_ms = now_ms

    def throttle_ms(self, now_ms: int) -> int:
        """The time until no token is owed; 0 if none is."""
        self.refill(now_ms)
        if not self.tokens < 0:
            return 0
        if not self.rate > 0:  # another controller may have accepted this
            return THROTTLE_MS_MAX
        return min(math.floor(-self.tokens / self.rate * 1000 + 0.5), THROTTLE_MS_MAX)


class MutationQuota:
    """The quota of the client of one request. Without a bucket, nothing limits it."""

    def __init__(self, bucket: TokenBucket | None, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._throttled_until_ms = 0

    def charge(self, partitions: int) -> None:
        """Take tokens for partitions. Raises Refusal instead if the quota is strict and tokens are owed."""
        bucket, now_ms = self._bucket, self._now_ms()
        if bucket is None:
            return
        if self._is_strict:
            self._pause(bucket, now_ms)
            if bucket.tokens < 0:
                raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            bucket.take(partitions, now_ms)
        else:
            bucket.take(partitions, now_ms)
            self._pause(bucket, now_ms)

    def _pause(self, bucket: TokenBucket, now_ms: int) -> None:
        """Ask for a pause if tokens are owed."""
        throttle_ms = bucket.throttle_ms(now_ms)
        if throttle_ms:
            bucket.throttles += self._throttled_until_ms == 0  # once per request
            self._throttled_until_ms = now_ms + throttle_ms

    def throttle_ms(self) -> int:
        """The time that the client should pause, as far as it is not over yet.

        A strict quota that has refused nothing asks for no pause.
        """
        return max(0, self._throttled_until_ms - self._now_ms())


class MutationQuotas:
    """The quotas of all clients of a controller. ``image`` returns the quotas of the cluster.

    ``burst_s`` is the time whose tokens a bucket can hold, and ``now_ms`` a monotonic clock.
    """

    def __init__(
        self, image: Callable[[], ClientQuotasImage], burst_s: float, now_ms: Callable[[], int]
    ) -> None:
        self._image = image
        self._burst_s = burst_s
        self._now_ms = now_ms
        self._limits = ClientLimits(image(), CONTROLLER_MUTATION_RATE)
        self._buckets: OrderedDict[tuple[str, str], TokenBucket] = OrderedDict()
        """The buckets by user and client id, the least recently used first."""

    def of(self, principal: str, client_id: str, *, is_strict: bool) -> MutationQuota:
        """The quota for a request of a client. Equal clients share their tokens."""
        image = self._image()
        if image.version != self._limits.version:
            self._limits = ClientLimits(image, CONTROLLER_MUTATION_RATE)
        if self._limits.is_empty:
            return MutationQuota(None, self._now_ms, is_strict=is_strict)
        limit = self._limits.find(principal.partition(":")[2], client_id)
        return MutationQuota(self._bucket(limit), self._now_ms, is_strict=is_strict)

    def _bucket(self, found: ClientLimit) -> TokenBucket | None:
        """The bucket of those who share a limit, with the rate that applies now."""
        tags, now_ms = (found.user, found.client_id), self._now_ms()
        if found.limit is None:
            self._buckets.pop(tags, None)
            return None
        bucket = self._buckets.pop(tags, None)
        if bucket is None or now_ms - bucket.used_ms > IDLE_MS_MAX:
            bucket = TokenBucket(found.limit, self._burst_s, now_ms)
        bucket.rate = found.limit
        self._buckets[tags] = bucket
        self._drop_idle(now_ms)
        return bucket

    def _drop_idle(self, now_ms: int) -> None:
        """Drop buckets that were not used for long, and the first of too many."""
        while True:
            tags, bucket = next(iter(self._buckets.items()))
            if len(self._buckets) <= BUCKETS_MAX and now_ms - bucket.used_ms <= IDLE_MS_MAX:
                return
            del self._buckets[tags]

    def __len__(self) -> int:
        return len(self._buckets)

    def buckets(self) -> list[tuple[tuple[str, str], TokenBucket]]:
        """The buckets with the user and the client id that share each; an empty name stands for all."""
        return list(self._buckets.items())
