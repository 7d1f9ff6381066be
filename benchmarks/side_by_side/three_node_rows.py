"""What is measured on three nodes: what replication costs, how long an acknowledgement of all takes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from side_by_side.data import Data
from side_by_side.session import RunFailed
from side_by_side.three_nodes import ThreeNodes

RUN_TIMEOUT_S = 600
LEADER = 1
PARTITIONS = 8
CONNECTIONS = 4
PACED_S = 10
"""How long a row at a fixed rate takes, whatever the scale: its last percentiles need requests."""
SERVED_WITHIN_S = 20
WARM_UP_SCALE = 0.3
"""Less only where the rows are so small that they are to show nothing but that they run."""

Figures = dict[str, float]
"""By their names in the tables; NaN-free, what does not apply is left out."""


class Bench(NamedTuple):
    """What rows need beside the nodes: the built raw client, prepared batches, how much of everything."""

    wireload: Path
    cache: Path
    scale: float


class Row(NamedTuple):
    name: str
    run: Callable[[ThreeNodes, Bench], Figures]


@dataclass(frozen=True)
class Load:
    """What the raw client sends. `rate` is in requests per second, 0 for as fast as it goes."""

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
    """In the order of the table."""
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
    """Some seconds of what is measured later, so that a JVM has compiled it. Figures of it count nowhere."""
    most = Bench(bench.wireload, bench.cache, max(bench.scale, min(3 * bench.scale, WARM_UP_SCALE)))
    for load in (Load(MIDDLE, 1.5e9, -1), Load(SMALL, 1e9, 1), Load(ONE_RECORD, 1e7, -1, per_request=1)):
        _produce(load, nodes, most)
    _consume(nodes, most)


def _produce(load: Load, nodes: ThreeNodes, bench: Bench) -> Figures:
    """The raw client and one leader of 8 partitions, two followers. Processor time is that of all nodes, from
    the first request until the followers have everything."""
    topic = _new_topic(nodes, bench)
    before = nodes.cpu_s()
    printed = _send(load, nodes, bench, topic)
    nodes.await_same_size(topic)
    figures = _figures(printed, before, nodes)
    if load.rate:
        figures.pop("records/s")  # it is the client's
    nodes.delete_topic(topic)
    return figures


def _consume(nodes: ThreeNodes, bench: Bench) -> Figures:
    """What the leader's page cache holds, round and round."""
    topic = _new_topic(nodes, bench)
    _send(Load(MIDDLE, 5e8, 1), nodes, bench, topic)
    nodes.await_same_size(topic)
    before = nodes.cpu_s()
    wanted = int(8e9 * bench.scale)
    printed = _wireload(nodes, bench, "fetch", topic, bytes=wanted, uniform=1)
    figures = _figures(printed, before, nodes)
    nodes.delete_topic(topic)
    return figures


def _figures(printed: dict[str, float], before: dict[int, float], nodes: ThreeNodes) -> Figures:
    cpu_s = sum(after - before[node] for node, after in nodes.cpu_s().items())
    return {
        "records/s": printed["records"] / printed["seconds"],
        "records per CPU s": printed["records"] / max(cpu_s, 0.01),  # a tick of the kernel's clock
        "p50 ms": printed["p50_ms"],
        "p99 ms": printed["p99_ms"],
        "p99.9 ms": printed["p999_ms"],
        "memory MB": nodes.resident_mb(),
    }


def _new_topic(nodes: ThreeNodes, bench: Bench) -> str:
    """Led by one node, which serves it: that hears of it a moment after the metadata log."""
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
    return _wireload(
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


def _wireload(nodes: ThreeNodes, bench: Bench, mode: str, topic: str, **options: object) -> dict[str, float]:
    """What the raw client prints. Raises RunFailed."""
    options = {"partitions": PARTITIONS, "connections": CONNECTIONS, **options}
    words = [str(bench.wireload), mode, "127.0.0.1", str(nodes.nodes[LEADER].port), topic]
    words += [f"{name}={value}" for name, value in options.items()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode or not done.stdout.strip():
        raise RunFailed(f"wireload ended with {done.returncode}: {done.stderr[-500:]}")
    printed: dict[str, float] = json.loads(done.stdout)
    return printed
