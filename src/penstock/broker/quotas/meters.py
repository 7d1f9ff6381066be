"""The meters of one kind of quota: what those who share a limit have used.

As in Apache Kafka, a meter is kept for an hour after its last record. A client can choose a new client id for
each request, so there is also a limit on their number. A meter without a record in its window is as good as a
new one. To drop it early loses nothing but its metrics.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.broker.quotas.limits import ClientLimits
from penstock.broker.quotas.rate import Rate, Window

if TYPE_CHECKING:
    from penstock.metadata.image.client_quotas import ClientQuotasImage

IDLE_MS_MAX: Final = 3_600_000
"""How long a meter is kept after its last record, as in Kafka."""

METERS_MAX: Final = 10_000
"""The most meters of one kind of quota: beyond it, the least recently used one is dropped."""


class Meter:
    """The use of the clients that share one limit."""

    __slots__ = (
        *("client_id", "is_dropped", "limit", "rate", "recorded_ms"),
        *("throttled_ms", "throttles", "user"),
    )

    def __init__(self, user: str, client_id: str, window: Window) -> None:
        self.user = user
        """Empty if users share the limit."""
        self.client_id = client_id
        """Empty if client ids share the limit."""
        self.limit: float | None = None
        """None if the clients are measured only, because others have a limit."""
        self.rate = Rate(window)
        self.recorded_ms = 0
        self.throttles = 0
        self.throttled_ms = 0
        """The sum of the times for which connections were throttled."""
        self.is_dropped = False

    def record(self, value: float, now_ms: int) -> None:
        """Record without a check of the limit."""
        self.recorded_ms = now_ms
        self.rate.record(value, now_ms)

    def charge(self, value: float, now_ms: int) -> int:
        """Record, and return the time in milliseconds to wait until the rate is within the limit."""
        self.record(value, now_ms)
        return 0 if self.limit is None else self.rate.throttle_ms(self.limit, now_ms)

    def throttle(self, throttle_ms: int) -> None:
        """Count a throttled connection."""
        self.throttles += 1
        self.throttled_ms += throttle_ms


class Meters:
    """The meters of one key of quotas, such as `producer_byte_rate`, by the tags of their limits."""

    def __init__(self, key: str, image: ClientQuotasImage, window: Window) -> None:
        self._key = key
        self._window = window
        self._limits = ClientLimits(image, key)
        self._meters: OrderedDict[tuple[str, str], Meter] = OrderedDict()
        """The meters by user and client id, the least recently used first."""
        self.is_active = not self._limits.is_empty
        """Whether any client has a limit. Otherwise nothing is measured."""

    def apply(self, image: ClientQuotasImage) -> None:
        """Use the limits of this state of the image."""
        self._limits = ClientLimits(image, self._key)
        self.is_active = not self._limits.is_empty

    def meter(self, user: str, client_id: str, now_ms: int) -> Meter:
        """The meter of a client, with the limit that applies now."""
        found = self._limits.find(user, client_id)
        tags = (found.user, found.client_id)
        meter = self._meters.get(tags)
        if meter is None:
            self.expire(now_ms)
            if len(self._meters) >= METERS_MAX:
                self._drop_first()
            meter = self._meters[tags] = Meter(*tags, self._window)
            meter.recorded_ms = now_ms
        meter.limit = found.limit
        return meter

    def used(self, meter: Meter) -> None:
        """Keep this meter longer than those that were not used since."""
        self._meters.move_to_end((meter.user, meter.client_id))

    def expire(self, now_ms: int) -> None:
        """Drop the meters without a record for an hour."""
        while self._meters and now_ms - next(iter(self._meters.values())).recorded_ms > IDLE_MS_MAX:
            self._drop_first()

    def _drop_first(self) -> None:
        _tags, meter = self._meters.popitem(last=False)
        meter.is_dropped = True

    def __len__(self) -> int:
        return len(self._meters)

    def __iter__(self) -> Iterator[Meter]:
        return iter(list(self._meters.values()))
