"""Limits on connections: their number, and how fast new ones come (KIP-402, KIP-612).

A listener that reaches its own limit or the broker's does not accept connections for a while. Clients then
wait in the backlog. The listener between brokers is protected: only its own connections count for its limits,
and above `max.connections` it displaces a client that was idle. An address that reaches its own rate disturbs
no other: its connections are accepted, and closed a little later.

Pure: the caller passes the time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.broker.quotas.rate import Rate, Window

NO_LIMIT: Final = 2**31 - 1
ADDRESSES_MAX: Final = 10_000
"""The most addresses whose rate is measured: beyond it, the least recent one is dropped."""


@dataclass(frozen=True)
class ListenerLimits:
    """The limits of one listener."""

    max_connections: int = NO_LIMIT
    max_connection_creation_rate: int = NO_LIMIT


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits on connections, with Kafka's names."""

    max_connections: int = NO_LIMIT
    max_connections_per_ip: int = NO_LIMIT
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: int = NO_LIMIT
    listeners: Mapping[str, ListenerLimits] = field(default_factory=dict)
    """The limits of listeners by name."""


class Arrivals:
    """The new connections of one listener."""

    def __init__(self, window: Window) -> None:
        self.rate = Rate(window)
        self.connections = 0
        self.throttles = 0
        self.throttled_ms = 0
        """The sum of the times for which the listener did not accept connections."""
        self.address_throttles = 0
        """The number of connections that were closed because of their address."""


class ConnectionQuotas:
    """The connections of the listeners of one role, which share limits. ``limits`` returns those in force.

    A node that is broker and controller has two of these, as Kafka has two servers: clients of the broker
    cannot take the connections that the controller needs.
    """

    def __init__(
        self,
        names: Iterable[str],
        protected: str | None,
        window: Window,
        limits: Callable[[], ConnectionLimits],
    ) -> None:
        self._limits = limits
        self._window = window
        self.listeners: Final = {name: Arrivals(window) for name in names}
        self._protected = protected if len(self.listeners) > 1 else None
        self._rate = Rate(window)
        self._per_ip: Counter[str] = Counter()
        self._total = 0
        self._address_rates: Mapping[str | None, float] = {}
        self._addresses: OrderedDict[str, Rate] = OrderedDict()

    @property
    def is_exceeded(self) -> bool:
        """Whether the protected listener has taken the broker above its limit."""
        return self._total > self._limits().max_connections

    def is_protected(self, listener: str) -> bool:
        """Whether brokers connect to this listener, and clients to another one."""
        return listener == self._protected

    def limit_addresses(self, rates: Mapping[str | None, float]) -> None:
        """Set the connections a second by address; None is the default of all others."""
        self._address_rates = rates

    def has_slot(self, listener: str) -> bool:
        """Whether the listener may have one connection more."""
        limits = self._limits()
        own = limits.listeners.get(listener, ListenerLimits())
        if self.listeners[listener].connections >= own.max_connections:
            return False
        return self.is_protected(listener) or self._total < limits.max_connections

    def arrived(self, listener: str, now_ms: int) -> int:
        """Record a new connection; return for how many milliseconds the listener must not accept any."""
        limits, arrivals = self._limits(), self.listeners[listener]
        wait_ms = 0
        if not self.is_protected(listener):
            wait_ms = self._record(self._rate, limits.max_connection_creation_rate, now_ms)
        own = limits.listeners.get(listener, ListenerLimits())
        wait_ms = max(wait_ms, self._record(arrivals.rate, own.max_connection_creation_rate, now_ms))
        if wait_ms:
            arrivals.throttles += 1
            arrivals.throttled_ms += wait_ms
        return wait_ms

    def address_throttle_ms(self, listener: str, ip: str, now_ms: int) -> int:
        """Record an address; return after how many milliseconds to close its connection, 0 to open it.

        A connection that is not opened counts for no rate.
        """
        limit = int(self._address_rates.get(ip, self._address_rates.get(None, NO_LIMIT)))
        if limit == NO_LIMIT:
            return 0
        rate = self._addresses.get(ip)
        if rate is None:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.popitem(last=False)
            rate = self._addresses[ip] = Rate(self._window)
        self._addresses.move_to_end(ip)
        wait_ms = self._record(rate, limit, now_ms)
        if wait_ms:
            arrivals = self.listeners[listener]
            arrivals.address_throttles += 1
            rate.record(-1, now_ms)
            arrivals.rate.record(-1, now_ms)
            if not self.is_protected(listener):
                self._rate.record(-1, now_ms)
        return wait_ms

    def connections_of(self, ip: str) -> int:
        """The number of connections from this address."""
        return self._per_ip.get(ip, 0)

    def address_limit(self, ip: str) -> int:
        """The most connections from this address."""
        limits = self._limits()
        return limits.max_connections_per_ip_overrides.get(ip, limits.max_connections_per_ip)

    def open(self, listener: str, ip: str) -> bool:
        """Count a connection, unless its address has too many."""
        if self.connections_of(ip) >= self.address_limit(ip):
            return False
        self._per_ip[ip] += 1
        self._total += 1
        self.listeners[listener].connections += 1
        return True

    def close(self, listener: str, ip: str) -> None:
        """Count one connection less."""
        self._per_ip[ip] -= 1
        if not self._per_ip[ip]:
            del self._per_ip[ip]
        self._total -= 1
        self.listeners[listener].connections -= 1

    def _record(self, rate: Rate, limit: int, now_ms: int) -> int:
        rate.record(1, now_ms)
        if limit == NO_LIMIT:
            return 0
        return min(rate.throttle_ms(limit, now_ms), self._window.sample_ms)
