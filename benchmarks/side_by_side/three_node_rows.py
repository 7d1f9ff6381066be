"""What is measured on three nodes: replication's cost, how long a failure is felt, and what rest costs."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from penstock.client.brokers import describe_cluster
from side_by_side.data import Data
from side_by_side.session import RunFailed
from side_by_side.three_nodes import NODES, ThreeNodes

RUN_TIMEOUT_S = 600
OBSERVED_S = 10.0
FAILURE_FELT_MAX_S = 60.0

Figures = dict[str, float]
"""By their names in the table; NaN-free, what does not apply is left out."""


class Bench(NamedTuple):
    """What rows need beside the nodes: the built raw client, prepared batches, how much of everything."""

    wireload: Path
    cache: Path
    scale: float


class Row(NamedTuple):
    name: str
    run: Callable[[ThreeNodes, Bench], Figures]


def rows() -> list[Row]:
    """In the order of the table."""
    return [*_throughput(), *_latency(), *_failures(), Row("1,000 partitions", _many_partitions)]


def _throughput() -> Iterator[Row]:
    for label, size, payload_bytes in (("100 B", 100, 300e6), ("1 KiB", 1024, 1e9)):
        for acks, name in ((1, "1"), (-1, "all")):

            def produce(
                nodes: ThreeNodes,
                bench: Bench,
                size: int = size,
                payload_bytes: float = payload_bytes,
                acks: int = acks,
            ) -> Figures:
                return _produce(nodes, bench, Data(size), payload_bytes, acks, rate=0)

            yield Row(f"produce {label}, acks {name}", produce)


def _latency() -> Iterator[Row]:
    def paced(nodes: ThreeNodes, bench: Bench) -> Figures:
        return _produce(nodes, bench, Data(1024), 60e6, -1, rate=300)

    yield Row("produce 1 KiB, acks all, 300 requests/s", paced)


def _produce(
    nodes: ThreeNodes, bench: Bench, data: Data, payload_bytes: float, acks: int, rate: int
) -> Figures:
    """The raw client and one leader of 8 partitions, two followers. Processor time is that of all nodes, from
    the first request until the followers have everything."""
    topic = f"row-{time.monotonic_ns()}"
    nodes.create_topic(topic, 8, leader=1)
    per_request = 1 if rate else 8
    per_request_bytes = data.per_batch * data.size_bytes * per_request
    command = [str(bench.wireload), "produce", "127.0.0.1", str(nodes.nodes[1].port), topic]
    options = {
        "batches": data.file(bench.cache),
        "requests": max(100, int(bench.scale * payload_bytes / per_request_bytes)),
        "partitions": 8,
        "per_request": per_request,
        "connections": 4,
        "acks": acks,
        "rate": rate,
    }
    before = nodes.cpu_s()
    done = subprocess.run(
        [*command, *(f"{name}={value}" for name, value in options.items())],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    if done.returncode or not done.stdout.strip():
        raise RunFailed(f"wireload ended with {done.returncode}: {done.stderr[-500:]}")
    _await_same_size(nodes, topic)
    after = nodes.cpu_s()
    printed = json.loads(done.stdout)
    cpu_s = sum(after[node] - before[node] for node in after)
    figures = {
        "p50 ms": printed["p50_ms"],
        "p99 ms": printed["p99_ms"],
        "CPU s/GB": cpu_s / (printed["records"] * data.size_bytes / 1e9),
        "memory MB": nodes.resident_mb(),
    }
    if not rate:
        figures["records/s"] = printed["records"] / printed["seconds"]
    nodes.delete_topic(topic)
    return figures


def _await_same_size(nodes: ThreeNodes, topic: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        sizes = {
            sum(file.stat().st_size for file in node.data_dir.glob(f"{topic}-*/*.log"))
            for node in nodes.nodes.values()
        }
        if len(sizes) == 1:
            return
        if time.monotonic() > deadline:
            raise RunFailed(f"followers of {topic} never had all that the leader has: {sizes}")
        time.sleep(0.02)


# --- failures ---


def _failures() -> Iterator[Row]:
    for kills_controller in (False, True):
        name = "the active controller" if kills_controller else "a leader"

        def measure(nodes: ThreeNodes, bench: Bench, kills_controller: bool = kills_controller) -> Figures:
            active = nodes.controller()
            victim = active if kills_controller else next(n for n in sorted(nodes.nodes) if n != active)
            topic = f"steady-{time.monotonic_ns()}"
            nodes.create_topic(topic, NODES, {"min.insync.replicas": "2"})
            steady = _Steady(nodes.bootstrap, topic)
            time.sleep(2)
            killed_at_s = time.monotonic()
            nodes.nodes[victim].kill()
            try:
                steady.await_all_after(killed_at_s)
            finally:
                steady.finish()
            nodes.restart(victim)
            nodes.delete_topic(topic)
            return {"felt s": steady.longest_pause_s(killed_at_s)}

        yield Row(f"kill {name}: last acknowledgement before to first after", measure)


class _Steady:
    """Sends to every partition of a topic all the time, acks=all, and keeps when each was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "message.timeout.ms": 120_000,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._topic = topic
        self._acknowledged_at_s: list[list[float]] = [[] for _ in range(NODES)]
        self._running = threading.Event()
        self._running.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._running.is_set():
            for partition in range(NODES):
                self._producer.produce(self._topic, b"x", partition=partition, on_delivery=self._delivered)
            self._producer.poll(0.01)
        self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            partition = message.partition()
            assert partition is not None, "it was acknowledged"
            self._acknowledged_at_s[partition].append(time.monotonic())

    def await_all_after(self, moment_s: float) -> None:
        """Until each partition that stood still has been acknowledged something again, and a second more."""
        deadline = time.monotonic() + FAILURE_FELT_MAX_S
        while not all(moments and moments[-1] > moment_s + 1 for moments in self._acknowledged_at_s):
            if time.monotonic() > deadline:
                raise RunFailed(f"no acknowledgement for {FAILURE_FELT_MAX_S:g} s")
            time.sleep(0.02)
        time.sleep(1)

    def longest_pause_s(self, since_s: float) -> float:
        pauses = []
        for moments in self._acknowledged_at_s:
            first = max((moment for moment in moments if moment <= since_s), default=since_s)
            pauses += [
                b - a for a, b in pairwise([first, *(moment for moment in moments if moment > since_s)])
            ]
        return max(pauses)

    def finish(self) -> None:
        self._running.clear()
        self._thread.join(120)


def _many_partitions(nodes: ThreeNodes, bench: Bench) -> Figures:
    """Idle processor time of each node; then one dies, and all it led is led by others."""
    count = max(NODES, int(1000 * bench.scale))
    topic = f"many-{time.monotonic_ns()}"
    nodes.create_topic(topic, count)
    time.sleep(3)
    before = nodes.cpu_s()
    time.sleep(OBSERVED_S)
    idle = max((after - before[node]) / OBSERVED_S for node, after in nodes.cpu_s().items())
    victim = next(node for node in sorted(nodes.nodes) if node != nodes.controller())
    acknowledged_at_s: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": nodes.bootstrap,
            "linger.ms": 0,
            "message.timeout.ms": 120_000,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    producer.list_topics(topic, timeout=30)
    led = [partition for partition in range(count) if partition % NODES == sorted(nodes.nodes).index(victim)]

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is None:
            acknowledged_at_s.append(time.monotonic())

    nodes.nodes[victim].kill()
    for partition in led:
        producer.produce(topic, b"x", partition=partition, on_delivery=delivered)
    fenced_at_s = _await_fenced(nodes, victim, lambda: producer.poll(0))
    if producer.flush(FAILURE_FELT_MAX_S) or len(acknowledged_at_s) < len(led):
        raise RunFailed(f"{len(acknowledged_at_s)} of {len(led)} partitions have a leader that serves")
    nodes.restart(victim)
    nodes.delete_topic(topic)
    return {
        "idle CPU": idle,
        "fenced to last leader s": max(max(acknowledged_at_s) - fenced_at_s, 0.0),
        "memory MB": nodes.resident_mb(),
    }


def _await_fenced(nodes: ThreeNodes, victim: int, meanwhile: Callable[[], object]) -> float:
    deadline = time.monotonic() + FAILURE_FELT_MAX_S
    with nodes.client(without=victim) as client:
        while time.monotonic() < deadline:
            if any(b.broker_id == victim and b.is_fenced for b in describe_cluster(client).brokers):
                return time.monotonic()
            meanwhile()
            time.sleep(0.005)
    raise RunFailed(f"node {victim} was not fenced within {FAILURE_FELT_MAX_S:g} s")
