"""How long clients notice a failure on three nodes, and the cost of many partitions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

from confluent_kafka import KafkaError, Message, Producer

from penstock.client.admin.brokers import describe_cluster
from penstock.client.producing.producer import Producer as PlainProducer
from penstock.client.producing.producer import ProducerConfig
from penstock.protocol.records import Record, encode_batch
from side_by_side.session import RunFailed
from side_by_side.three_node_rows import Bench, Figures, Row
from side_by_side.three_nodes import NODES, ThreeNodes

STEADY_S = 2.0
OBSERVED_S = 10.0
FAILURE_FELT_MAX_S = 60.0
PARTITIONS = 1000

CLIENT = {
    "linger.ms": 0,
    "message.timeout.ms": 120_000,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "log_level": 0,
}
"""A client that retries often, so that the cluster's time is measured."""
ASKS_ANEW_OFTEN = {"retry.backoff.ms": "20", "retry.backoff.max.ms": "100"}
"""The same for our own client, which asks at once where librdkafka waits for the next full second."""


def rows() -> Iterator[Row]:
    """Yield the rows in the order of the table."""
    yield Row("a leader is killed", partial(_kill, kills_controller=False))
    yield Row("the active controller is killed", partial(_kill, kills_controller=True))
    yield Row("1,000 partitions", _many_partitions)


def _kill(nodes: ThreeNodes, bench: Bench, *, kills_controller: bool) -> Figures:
    """Measure the longest time from the last acknowledgement before the failure to the next one."""
    active = nodes.controller()
    victim = active if kills_controller else next(n for n in sorted(nodes.nodes) if n != active)
    topic = f"steady-{time.monotonic_ns()}"
    nodes.create_topic(topic, NODES, {"min.insync.replicas": "2"})
    steady = _Steady(nodes.bootstrap, topic)
    time.sleep(STEADY_S)
    killed_at_s = time.monotonic()
    nodes.nodes[victim].kill()
    try:
        steady.await_all_after(killed_at_s)
    finally:
        steady.finish()
    nodes.restart(victim)
    nodes.delete_topic(topic)
    return {"felt s": steady.longest_pause_s(killed_at_s)}


class _Steady:
    """Sends continuously to every partition of a topic, acks=all, and records when each was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({**CLIENT, "bootstrap.servers": bootstrap, "enable.idempotence": True})
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
        """Wait until each partition has acknowledged a record again, and a second more."""
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
            later = [first, *(moment for moment in moments if moment > since_s)]
            pauses += [b - a for a, b in pairwise(later)]
        return max(pauses)

    def finish(self) -> None:
        self._running.clear()
        self._thread.join(120)


def _many_partitions(nodes: ThreeNodes, bench: Bench) -> Figures:
    """Measure each node's idle processor time; then kill one, until other nodes lead all its partitions."""
    topic = f"many-{time.monotonic_ns()}"
    nodes.create_topic(topic, PARTITIONS)
    time.sleep(3)
    before = nodes.cpu_s()
    time.sleep(OBSERVED_S)
    idle = max((after - before[node]) / OBSERVED_S for node, after in nodes.cpu_s().items())
    memory_mb = nodes.resident_mb()
    victim = next(node for node in sorted(nodes.nodes) if node != nodes.controller())
    led = range(sorted(nodes.nodes).index(victim), PARTITIONS, NODES)
    with ThreadPoolExecutor(1) as meanwhile, nodes.client(without=victim, **ASKS_ANEW_OFTEN) as client:
        producer = PlainProducer(client, ProducerConfig())
        nodes.nodes[victim].kill()
        fenced = meanwhile.submit(_await_fenced, nodes, victim)
        for partition in led:
            producer.send(topic, partition, bytearray(encode_batch([Record(0, 0, None, b"x")])))
        producer.flush()
        last_led_at_s = time.monotonic()
        producer.close()
        fenced_at_s = fenced.result()
    nodes.restart(victim)
    nodes.delete_topic(topic)
    return {
        "fenced to last leader s": max(last_led_at_s - fenced_at_s, 0.0),
        "idle CPU": idle,
        "memory MB": memory_mb,
    }


def _await_fenced(nodes: ThreeNodes, victim: int) -> float:
    deadline = time.monotonic() + FAILURE_FELT_MAX_S
    with nodes.client(without=victim) as client:
        while time.monotonic() < deadline:
            if any(b.broker_id == victim and b.is_fenced for b in describe_cluster(client).brokers):
                return time.monotonic()
            time.sleep(0.005)
    raise RunFailed(f"node {victim} was not fenced within {FAILURE_FELT_MAX_S:g} s")
