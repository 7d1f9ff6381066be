"""The measurements on three nodes: the cost of replication, and the time of an acknowledgement by all."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from penstock.bench.loadgen import Loadgen
from side_by_side.data import Data
from side_by_side.session import RunFailed
from side_by_side.three_nodes import ThreeNodes

RUN_TIMEOUT_S = 600
LEADER = 1
PARTITIONS = 8
CONNECTIONS = 4
PACED_S = 10
"""The duration of a row at a fixed rate, whatever the scale: its last percentiles need requests."""
SERVED_WITHIN_S = 20
WARM_UP_SCALE = 0.3
"""The scale of a warm-up, lower only if the rows are so small that they just check that everything runs."""

Figures = dict[str, float]
"""Figures by their names in the tables, without NaN: a figure that does not apply is omitted."""


class Bench(NamedTuple):
    """The resources of rows beside the nodes: the load generator, prepared batches, and the scale."""

    loadgen: Loadgen
    cache: Path
    scale: float


class Row(NamedTuple):
    name: str
    run: Callable[[ThreeNodes, Bench], Figures]


@dataclass(frozen=True)
class Load:
    """The load that the raw client sends. `rate` is in requests per second; 0 means as fast as possible."""

    data: Data
    payload_bytes: float
    acks: int
    per_request: int = PARTITIONS
    rate: int = 0

    def requests(self, scale: float) -> int:
        if self.rate:
            return self.rate * PACED_S
        per_request_bytes = self.data.per_batch * self.data.size_bytes * self.per_request
        return max(200, int(scale * self.payload_bytes / per_request_bytes))


SMALL = Data(100)
MIDDLE = Data(1024)
ONE_RECORD = Data(100, records_per_batch=1)


def rows() -> list[Row]:
    """Return the rows in the order of the table."""
    acks = (("1", 1), ("all", -1))
    return [
        *(
            Row(f"produce 100 B, acks {name}", partial(_produce, Load(SMALL, 1e9, code)))
            for name, code in acks
        ),
        *(
            Row(f"produce 1 KiB, acks {name}", partial(_produce, Load(MIDDLE, 1.5e9, code)))
            for name, code in acks
        ),
        *(
            Row(
                f"produce 100 B, one record a request, acks {name}",
                partial(_produce, Load(ONE_RECORD, 1e7, code, per_request=1)),
            )
            for name, code in acks
        ),
        Row("consume 1 KiB", _consume),
        Row(
            "produce 1 KiB, acks all, 300 requests/s",
            partial(_produce, Load(MIDDLE, 0, -1, per_request=1, rate=300)),
        ),
        Row(
            "produce 100 B, one record a request, acks all, 500 requests/s",
            partial(_produce, Load(ONE_RECORD, 0, -1, per_request=1, rate=500)),
        ),
    ]


def warm_up(nodes: ThreeNodes, bench: Bench) -> None:
    """Run the later measurements for some seconds, uncounted, so that a JVM has compiled the code."""
    most = Bench(bench.loadgen, bench.cache, max(bench.scale, min(3 * bench.scale, WARM_UP_SCALE)))
    for load in (Load(MIDDLE, 1.5e9, -1), Load(SMALL, 1e9, 1), Load(ONE_RECORD, 1e7, -1, per_request=1)):
        _produce(load, nodes, most)
    _consume(nodes, most)


def _produce(load: Load, nodes: ThreeNodes, bench: Bench) -> Figures:
    """Measure the raw client with one leader of 8 partitions and two followers.

    Processor time is that of all nodes, from the first request until the followers have everything.
    """
    topic = _new_topic(nodes, bench)
    before = nodes.cpu_s()
    printed = _send(load, nodes, bench, topic)
    nodes.await_same_size(topic)
    figures = _figures(printed, before, nodes)
    if load.rate:
        figures.pop("records/s")  # the client determines it
    nodes.delete_topic(topic)
    return figures


def _consume(nodes: ThreeNodes, bench: Bench) -> Figures:
    """Measure repeated reads of data in the leader's page cache."""
    topic = _new_topic(nodes, bench)
    _send(Load(MIDDLE, 5e8, 1), nodes, bench, topic)
    nodes.await_same_size(topic)
    before = nodes.cpu_s()
    wanted = int(8e9 * bench.scale)
    printed = _raw_client(nodes, bench, "fetch", topic, bytes=wanted, uniform=1)
    figures = _figures(printed, before, nodes)
    nodes.delete_topic(topic)
    return figures


def _figures(printed: dict[str, float], before: dict[int, float], nodes: ThreeNodes) -> Figures:
    cpu_s = sum(after - before[node] for node, after in nodes.cpu_s().items())
    return {
        "records/s": printed["records"] / printed["seconds"],
        "records per CPU s": printed["records"] / max(cpu_s, 0.01),  # at least a tick of the kernel's clock
        "p50 ms": printed["p50_ms"],
        "p99 ms": printed["p99_ms"],
        "p99.9 ms": printed["p999_ms"],
        "memory MB": nodes.resident_mb(),
    }


def _new_topic(nodes: ThreeNodes, bench: Bench) -> str:
    """Create a topic and wait until its leader serves it, which follows the metadata log with a delay."""
    topic = f"row-{time.monotonic_ns()}"
    nodes.create_topic(topic, PARTITIONS, leader=LEADER)
    deadline = time.monotonic() + SERVED_WITHIN_S
    while True:
        try:
            _send(Load(MIDDLE, 0, -1), nodes, bench, topic, requests=1)
        except RunFailed:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            break
    nodes.await_same_size(topic)
    return topic


def _send(
    load: Load, nodes: ThreeNodes, bench: Bench, topic: str, requests: int | None = None
) -> dict[str, float]:
    return _raw_client(
        nodes,
        bench,
        "produce",
        topic,
        batches=load.data.file(bench.cache),
        requests=requests or load.requests(bench.scale),
        per_request=load.per_request,
        acks=load.acks,
        rate=load.rate,
    )


def _raw_client(
    nodes: ThreeNodes, bench: Bench, mode: str, topic: str, **options: object
) -> dict[str, float]:
    """Run the raw client and return its figures. Raises RunFailed."""
    options = {"partitions": PARTITIONS, "connections": CONNECTIONS, **options}
    address = f"127.0.0.1:{nodes.nodes[LEADER].port}"
    words = bench.loadgen.raw_command(mode, address, topic, **options)
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode or not done.stdout.strip():
        raise RunFailed(f"the raw client ended with {done.returncode}: {done.stderr[-500:]}")
    printed: dict[str, float] = json.loads(done.stdout)
    return printed
