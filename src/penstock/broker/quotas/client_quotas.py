"""The quotas of clients on one broker: bytes produced and fetched, and time of requests (KIP-13, KIP-124).

A request is answered first. If it took its client above a limit, the answer names the time after which the
client is within the limit again, and the connection is not read for that time. So a client cannot ignore it.

Bytes may take any time, because a large request is charged afterwards. The time for requests is at most one
sample. Where two limits are exceeded, the longer time counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.broker.quotas.meters import Meter, Meters
from penstock.broker.quotas.rate import Window
from penstock.metadata.image.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotasImage,
)

PERCENT_SECONDS_PER_NS: Final = 100.0 / 1_000_000_000
"""A rate of 100 a second is the whole event loop."""

NO_LIMIT_BYTES: Final = 2**31 - 1


class ClientQuotas:
    """The quotas of a broker. ``image`` returns the quotas of the cluster, ``now_ms`` a monotonic time.

    As a `QuorumWatcher` it takes over each change of the image, and live connections see it at once.
    """

    def __init__(
        self, image: Callable[[], ClientQuotasImage], window: Window, now_ms: Callable[[], int]
    ) -> None:
        self._image = image
        self._window = window
        self._now_ms = now_ms
        self.produce = Meters(PRODUCER_BYTE_RATE, image(), window)
        self.fetch = Meters(CONSUMER_BYTE_RATE, image(), window)
        self.request = Meters(REQUEST_PERCENTAGE, image(), window)
        self.version = -1
        """The version of the image whose limits are in force."""
        self.is_active = False
        """Whether there is any quota. Hot paths ask this, and nothing else if it is False."""
        self.exempt_ns = 0
        """The time of requests that no quota limits, while others are limited."""
        self.committed(0)

    def client(self, principal: str, client_id: str) -> MeteredClient:
        """A client on one connection."""
        return MeteredClient(self, principal.partition(":")[2], client_id)

    def expire(self) -> None:
        """Drop meters that were not used for long."""
        now_ms = self._now_ms()
        for meters in (self.produce, self.fetch, self.request):
            meters.expire(now_ms)

    # QuorumWatcher

    def committed(self, end_offset: int) -> None:
        """Take over the limits of the image, if they have changed."""
        image = self._image()
        if image.version == self.version:
            return
        self.version = image.version
        for meters in (self.produce, self.fetch, self.request):
            meters.apply(image)
        # The controller limits mutations itself, but only the client's broker can mute the connection.
        limits_mutations = any(CONTROLLER_MUTATION_RATE in values for values in image.by_entity.values())
        limited = (self.produce, self.fetch, self.request)
        self.is_active = limits_mutations or any(meters.is_active for meters in limited)

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """Do nothing: the limits stay in force."""

    def failed(self, reason: str) -> None:
        """Do nothing: committed limits stay in force."""

    # What a request has used

    def produced(self, client: MeteredClient, frame_bytes: int, handler_ns: int, *, is_answered: bool) -> int:
        """Charge a Produce, and return its throttle time in milliseconds.

        As in Kafka, one that is not answered (acks=0) is charged its bytes only.
        """
        now_ms = self._now_ms()
        bytes_ms = self._charge(self.produce, client, frame_bytes, now_ms)
        request_ms = 0
        if is_answered:
            request_ms = self._charge_time(client, handler_ns, now_ms)
        else:
            self.exempted(handler_ns)
        return self._throttled(client, self.produce, bytes_ms, request_ms)

    def fetched(self, client: MeteredClient, response_bytes: int, handler_ns: int) -> int:
        """Charge a consumer's Fetch, and return its throttle time in milliseconds.

        A throttled fetch is answered without records, so its bytes are taken back.
        """
        now_ms = self._now_ms()
        request_ms = self._charge_time(client, handler_ns, now_ms)
        bytes_ms = self._charge(self.fetch, client, response_bytes, now_ms)
        if self.fetch.is_active and (bytes_ms or request_ms):
            client.meter(self.fetch, now_ms).record(-response_bytes, now_ms)
        return self._throttled(client, self.fetch, bytes_ms, request_ms)

    def requested(self, client: MeteredClient, handler_ns: int, controller_ms: int) -> int:
        """Charge any other request, and return its throttle time in milliseconds.

        ``controller_ms`` is the controller's throttle time, if it has answered.
        """
        request_ms = self._charge_time(client, handler_ns, self._now_ms())
        return self._throttled(client, self.request, controller_ms, request_ms)

    def exempted(self, handler_ns: int) -> None:
        """Count the time of a request that no quota limits."""
        if self.request.is_active:
            self.exempt_ns += handler_ns

    def transferred(self, client: MeteredClient, network_ns: int) -> None:
        """Add the time to receive requests and to send responses, which the next request finds used."""
        if self.request.is_active:
            now_ms = self._now_ms()
            client.meter(self.request, now_ms).record(network_ns * PERCENT_SECONDS_PER_NS, now_ms)

    def fetch_bytes_max(self, client: MeteredClient) -> int:
        """The most bytes to fetch at once: more would exceed even an idle client's limit (KAFKA-9677)."""
        if not self.fetch.is_active:
            return NO_LIMIT_BYTES
        limit = client.meter(self.fetch, self._now_ms()).limit
        return NO_LIMIT_BYTES if limit is None else min(int(limit * self._window.complete_s), NO_LIMIT_BYTES)

    def _charge(self, meters: Meters, client: MeteredClient, value: float, now_ms: int) -> int:
        return client.meter(meters, now_ms).charge(value, now_ms) if meters.is_active else 0

    def _charge_time(self, client: MeteredClient, handler_ns: int, now_ms: int) -> int:
        throttle_ms = self._charge(self.request, client, handler_ns * PERCENT_SECONDS_PER_NS, now_ms)
        return min(throttle_ms, self._window.sample_ms)

    def _throttled(self, client: MeteredClient, meters: Meters, throttle_ms: int, request_ms: int) -> int:
        longest_ms = max(throttle_ms, request_ms)
        if longest_ms > 0:
            exceeded = meters if throttle_ms > request_ms else self.request
            client.meter(exceeded, self._now_ms()).throttle(longest_ms)
        return longest_ms


class MeteredClient:
    """A client of one connection. It keeps its meters while the limits stay the same."""

    __slots__ = ("_client_id", "_meters", "_quotas", "_user", "_version")

    def __init__(self, quotas: ClientQuotas, user: str, client_id: str) -> None:
        self._quotas = quotas
        self._user = user
        self._client_id = client_id
        self._version = -1
        self._meters: dict[int, Meter] = {}

    def meter(self, meters: Meters, now_ms: int) -> Meter:
        """The client's meter of one kind of quota."""
        if self._version != self._quotas.version:
            self._version = self._quotas.version
            self._meters.clear()
        meter = self._meters.get(id(meters))
        if meter is None or meter.is_dropped:
            meter = self._meters[id(meters)] = meters.meter(self._user, self._client_id, now_ms)
        meters.used(meter)
        return meter


UNLIMITED: Final = ClientQuotas(ClientQuotasImage, Window(1, 1), lambda: 0)
"""The quotas of listeners that limit no client."""
