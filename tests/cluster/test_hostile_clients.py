"""Thousands of hostile connections do not affect a well-behaved client or the memory of the node.

PENSTOCK_FUZZ_SECONDS prolongs it (`make fuzz`), PENSTOCK_FUZZ_SEED repeats a run's choices.
"""

import contextlib
import itertools
import os
import random
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer

from broker_wire import Wire, batch_of, fetch_request, produce_request
from penstock.processes.memory import MEMORY_MAX
from penstock.protocol import api_keys
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey
from penstock.testing import Cluster

SECONDS = float(os.environ.get("PENSTOCK_FUZZ_SECONDS", "6"))
SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED") or random.randrange(2**32))
ATTACKERS = 3
LEFT_OPEN = 150
LATENCY_S_MAX = 3.0
GROWTH_BYTES_MAX = 400 << 20
MAPPED_BYTES_MAX = 64 << 30
PREY, PREY_COMPACTED, PREY_GZIP = "prey", "prey-compacted", "prey-gzip"


class Attacker(threading.Thread):
    """A client that repeats hostile actions, each on a new connection, and leaves many connections open."""

    def __init__(self, bootstrap: str, seed: str, served: dict[ApiKey, tuple[int, int]]) -> None:
        super().__init__(daemon=True)
        host, port = bootstrap.rsplit(":", 1)
        self.address = host, int(port)
        self.rng = random.Random(seed)
        self.served = served
        self.running = True
        self.acts = 0
        self._open: deque[socket.socket] = deque()
        with Wire(bootstrap) as wire:
            self.fetch = wire.frame(fetch_request(PREY, {0: 0}), 12)[0]
            bombs = [(t, c) for t in (PREY, PREY_COMPACTED, PREY_GZIP) for c in (1, 4)]
            records = {codec: batch_of(bytes(20 << 20), key=b"k", compression=codec) for codec in (1, 4)}
            self.bombs = [wire.frame(produce_request(t, records[c]), 9)[0] for t, c in bombs]
            self.real = [
                wire.frame(produce_request(PREY, batch_of(b"x" * 100)), version)[0]
                for version in range(3, 13)
            ]
            self.real += [self.fetch, wire.frame(m.MetadataRequest(topics=None), 12)[0]]

    def run(self) -> None:
        acts: list[Callable[[], bytes]] = [
            self.noise,
            self.any_request,
            self.mutation,
            self.truncation,
            self.announcement,
            self.crowd,
            self.unread_fetches,
            lambda: self.rng.choice(self.bombs) if self.rng.random() < 0.05 else b"",
        ]
        while self.running:
            self.strike(self.rng.choice(acts)())
            self.acts += 1
        for each in self._open:
            each.close()

    def strike(self, sent: bytes) -> None:
        with contextlib.suppress(OSError):
            connection = socket.create_connection(self.address, 5)
            connection.settimeout(0.2)
            self._open.append(connection)
            connection.sendall(sent)
            if self.rng.random() < 0.5:
                self._open.pop().close()
        while len(self._open) > LEFT_OPEN:
            self._open.popleft().close()

    def noise(self) -> bytes:
        return self.rng.randbytes(self.rng.randrange(1, 300))

    def any_request(self) -> bytes:
        """A request of a random served API and version, with random bytes or an empty message as its body."""
        key = self.rng.choice(list(self.served))
        version = self.rng.randint(*self.served[key])
        header = m.RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=1, client_id="hostile"
        ).encode(api_keys.request_header_version(key, version))
        body = self.rng.randbytes(self.rng.randrange(200))
        if self.rng.random() < 0.5:
            with contextlib.suppress(ValueError):
                body = bytearray(api_keys.request_class(key)().encode(version))
                for _ in range(self.rng.randrange(3)):
                    body[self.rng.randrange(len(body))] = self.rng.choice((0, 1, 2, 127, 128, 255))
        return struct.pack(">i", len(header) + len(body)) + header + bytes(body)

    def mutation(self) -> bytes:
        frame = bytearray(self.rng.choice(self.real))
        for _ in range(self.rng.randrange(1, 6)):
            frame[self.rng.randrange(4, len(frame))] ^= 1 << self.rng.randrange(8)
        return bytes(frame)

    def truncation(self) -> bytes:
        frame = self.rng.choice(self.real)
        return frame[: self.rng.randrange(1, len(frame))]

    def announcement(self) -> bytes:
        return struct.pack(">ihhi", self.rng.randrange(1 << 20, 100 << 20), 0, 9, 1)

    def crowd(self) -> bytes:
        return self.rng.choice(self.real) * 500

    def unread_fetches(self) -> bytes:
        return self.fetch * 50


class GoodProducer(threading.Thread):
    """A producer of numbered records at a moderate rate, with the latency of each acknowledgement."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.running = True
        self.sent = 0
        self.failed: list[str] = []
        self.latency_s_max = 0.0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 3}
        )

    def run(self) -> None:
        for number in itertools.count():
            if not self.running:
                break
            started_s = time.monotonic()
            self._producer.produce(
                "good", b"%d" % number, on_delivery=lambda error, _, at=started_s: self._delivered(error, at)
            )
            self.sent += 1
            self._producer.poll(0.002)
        self._producer.flush(30)

    def _delivered(self, error: object, started_s: float) -> None:
        if error is not None:
            self.failed.append(str(error))
        self.latency_s_max = max(self.latency_s_max, time.monotonic() - started_s)


def resident_bytes(node: Cluster) -> int:
    pages = Path(f"/proc/{node.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def consume(consumer: Consumer, until: int, timeout_s: float) -> list[int]:
    found: list[int] = []
    deadline = time.monotonic() + timeout_s
    while len(found) < until and time.monotonic() < deadline:
        messages: list[Message] = consumer.consume(1000, 0.2)
        found += [int(message.value()) for message in messages if message.error() is None]
    return found


def test_a_client_that_behaves_notices_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # The usual bound counts the frames that clients only announce: they are mapped, but take no memory.
    monkeypatch.setenv(MEMORY_MAX, str(MAPPED_BYTES_MAX))
    print(f"PENSTOCK_FUZZ_SEED={SEED}")
    with Cluster() as node:
        pid = node.pid
        with Wire(node.bootstrap_servers) as wire:
            for name in ("good", PREY):
                wire.create_topic(name)
            wire.create_topic(PREY_COMPACTED, cleanup_policy="compact")
            wire.create_topic(PREY_GZIP, compression_type="gzip")
            wire.produce(PREY, batch_of(os.urandom(500_000)))
            versions = wire.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0)
        served = {ApiKey(api.api_key): (api.min_version, api.max_version) for api in versions.api_keys}
        before_bytes = largest_bytes = resident_bytes(node)
        good = GoodProducer(node.bootstrap_servers)
        attackers = [Attacker(node.bootstrap_servers, f"{SEED}-{i}", served) for i in range(ATTACKERS)]
        consumer = Consumer(
            {"bootstrap.servers": node.bootstrap_servers, "group.id": "good", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["good"])
        for thread in (good, *attackers):
            thread.start()
        consumed: list[int] = []
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            consumed += consume(consumer, 1 << 62, 0.5)
            largest_bytes = max(largest_bytes, resident_bytes(node))
        for thread in (*attackers, good):
            thread.running = False
            thread.join(40)
        consumed += consume(consumer, good.sent - len(consumed), 30)
        consumer.close()
        growth_bytes = largest_bytes - before_bytes
        print(
            f"{sum(a.acts for a in attackers)} hostile acts beside {good.sent} records; slowest "
            f"acknowledgement {good.latency_s_max * 1000:.0f} ms; the node grew by {growth_bytes >> 20} MiB"
        )
        assert node.pid == pid
        assert not good.failed
        assert consumed == list(range(good.sent))
        assert good.latency_s_max < LATENCY_S_MAX
        assert growth_bytes < GROWTH_BYTES_MAX
        log = node.log_file.read_text()
        assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3000]
