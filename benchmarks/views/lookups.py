"""Lookups at a fixed rate, each timed from the moment at which it was due (so a stall counts in full).

They request keys that were due to change recently, within the schedule's ``age_s``. An answer that shows the
change is fresh; any other is stale by the age of that change. This is harder than looking up random keys, of
which one in a hundred has changed within the last second.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from views.schedule import Schedule

_SLOW_MS = 10.0


@dataclass
class Measured:
    latency_ms: list[float] = field(default_factory=list)
    staleness_ms: list[float] = field(default_factory=list)
    slow_at_s: dict[int, int] = field(default_factory=dict)
    """The number of lookups that took over 10 ms, by the second in which they were due."""
    wrong: int = 0

    def take(self, schedule: Schedule, update: int, due_ns: int, value: int | None) -> None:
        """Record the answer to a lookup that was due at ``due_ns``, for the key of an update."""
        self.latency_ms.append((time.monotonic_ns() - due_ns) / 1e6)
        if self.latency_ms[-1] > _SLOW_MS:
            second = (due_ns - schedule.start_ns) // 1_000_000_000
            self.slow_at_s[second] = self.slow_at_s.get(second, 0) + 1
        changed_ns = schedule.time_of(update)
        if value is None:
            self.wrong += 1
        elif value < changed_ns:
            self.staleness_ms.append((due_ns - changed_ns) / 1e6)
        else:
            self.staleness_ms.append(0.0)

    def report(self) -> dict[str, Any]:
        return {
            "lookups": len(self.latency_ms),
            "wrong": self.wrong,
            "latency_ms": percentiles(self.latency_ms),
            "staleness_ms": percentiles(self.staleness_ms),
            "slow_at_s": self.slow_at_s,
        }


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {}
    at = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
    found = {name: ordered[min(len(ordered) - 1, int(part * len(ordered)))] for name, part in at.items()}
    return {name: round(value, 3) for name, value in (found | {"max": ordered[-1]}).items()}


def in_process(
    get: Callable[[str], int | None], schedule: Schedule, lookups_per_s: int, seconds: float, seed: int = 1
) -> dict[str, Any]:
    """Look up keys in one thread."""
    rng, measured = random.Random(seed), Measured()
    begin_ns = schedule.start_ns + int(schedule.age_s * 1e9)
    for number in range(int(seconds * lookups_per_s)):
        due_ns = begin_ns + number * 1_000_000_000 // lookups_per_s
        left_s = (due_ns - time.monotonic_ns()) / 1e9
        if left_s > 0:
            time.sleep(left_s)
        update = schedule.last_before(due_ns - int(rng.random() * schedule.age_s * 1e9))
        measured.take(schedule, update, due_ns, get(schedule.key_of(update).decode()))
    return measured.report()


class _Connection(asyncio.Protocol):
    """A connection with pipelined requests; answers arrive in the same order."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._waiting: list[asyncio.Future[bytes]] = []
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a TCP connection's is writable

    def ask(self, path: str) -> asyncio.Future[bytes]:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.transport.write(f"GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n".encode())
        return future

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            at = head.index(b"content-length:") + 15
            size = int(head[at:].split(b"\r\n", 1)[0])
            if len(self._data) < end + 4 + size:
                return
            body, self._data = self._data[end + 4 : end + 4 + size], self._data[end + 4 + size :]
            self._waiting.pop(0).set_result(body)


async def over_http(
    endpoint: str, store: str, schedule: Schedule, lookups_per_s: int, seconds: float, connections: int = 16
) -> dict[str, Any]:
    """Look up keys over connections in turn, each when it is due, without waiting for other answers."""
    rng, measured = random.Random(2), Measured()
    host, port = endpoint.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    links = [(await loop.create_connection(_Connection, host, int(port)))[1] for _ in range(connections)]
    begin_ns = schedule.start_ns + int(schedule.age_s * 1e9)
    pending = []
    for number in range(int(seconds * lookups_per_s)):
        due_ns = begin_ns + number * 1_000_000_000 // lookups_per_s
        left_s = (due_ns - time.monotonic_ns()) / 1e9
        if left_s > 0:
            await asyncio.sleep(left_s)
        update = schedule.last_before(due_ns - int(rng.random() * schedule.age_s * 1e9))
        future = links[number % connections].ask(f"/stores/{store}/keys/{schedule.key_of(update).decode()}")

        def answered(done: asyncio.Future[bytes], update: int = update, due_ns: int = due_ns) -> None:
            measured.take(schedule, update, due_ns, json.loads(done.result()).get("value"))

        future.add_done_callback(answered)
        pending.append(future)
    await asyncio.gather(*pending)
    return measured.report()
