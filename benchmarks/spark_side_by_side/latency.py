"""End-to-end latency at a fixed rate: Spark copies records to another topic, where a consumer reads them."""

from __future__ import annotations

import statistics
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

from side_by_side.session import Measurement, RunFailed
from spark_side_by_side.process_tree import Sampler
from spark_side_by_side.queries import Query
from spark_side_by_side.session import Session
from spark_side_by_side.sides import LOW_LATENCY, PENSTOCK
from spark_side_by_side.workloads import CPU_S

_DUE = struct.Struct("<d")
SCALE_MIN = 0.25
START_TIMEOUT_S = 60
ARRIVE_TIMEOUT_S = 30


@dataclass(frozen=True)
class EndToEnd:
    """The latency of each record, from when it was due to be sent until a consumer has received it.

    Args:
        warm_up_s: begins with the first result and is not counted.
        delivery: that of our sink; the connector's is at least once.
    """

    delivery: str | None = None
    records_per_s: int = 1_000
    warm_up_s: float = 6.0
    seconds: float = 10.0
    size_bytes: int = 100

    def run(self, session: Session) -> Measurement:
        """Measure the latencies. Raises RunFailed."""
        scale = min(1.0, max(SCALE_MIN, session.topics.scale))
        warm_up_s, seconds = self.warm_up_s * scale, self.seconds * scale
        source = session.topics.create("input", partitions=1)
        with session.topics.target(partitions=1) as target:
            delivery = self.delivery if session.side is PENSTOCK else None
            query = Query(
                "copy", source, target=target, delivery=delivery, from_end=True, settings=LOW_LATENCY
            )
            with session.running.running(query), _Receiver(session.servers, target) as receiver:
                with _Sender(session.servers, source, self.records_per_s, self.size_bytes):
                    receiver.await_one()
                    time.sleep(warm_up_s)
                    begin_s = time.time()
                    with Sampler(session.running.tree) as sampler:
                        time.sleep(seconds)
                    end_s = time.time()
                receiver.await_due(end_s)
            session.topics.delete([source])
        latencies_ms = sorted((at - due) * 1000 for due, at in receiver.arrivals if begin_s <= due < end_s)
        if len(latencies_ms) < 0.9 * self.records_per_s * seconds:
            raise RunFailed(f"{len(latencies_ms)} records arrived within {ARRIVE_TIMEOUT_S} s")
        return Measurement(
            seconds=seconds,
            records=len(latencies_ms),
            p50_ms=statistics.median(latencies_ms),
            p99_ms=latencies_ms[int(len(latencies_ms) * 0.99)],
            p999_ms=latencies_ms[int(len(latencies_ms) * 0.999)],
            facts={CPU_S: sampler.cpu_s(begin_s, end_s)},
        )


class _Sender(threading.Thread):
    """Sends each record when it is due, during the block."""

    def __init__(self, servers: str, topic: str, records_per_s: int, size_bytes: int) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "acks": "all"})
        self._topic = topic
        self._interval_s = 1 / records_per_s
        self._padding = b"x" * (size_bytes - _DUE.size)
        self._stopped = threading.Event()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()
        self._producer.flush(ARRIVE_TIMEOUT_S)

    def run(self) -> None:
        due_s = time.time()
        while not self._stopped.is_set():
            wait_s = due_s - time.time()
            if wait_s > 0:
                time.sleep(wait_s)
            self._producer.produce(self._topic, _DUE.pack(due_s) + self._padding, partition=0)
            self._producer.poll(0)
            due_s += self._interval_s


class _Receiver(threading.Thread):
    """Records when each record was due and when it arrived, in seconds since 1970."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.arrivals: list[tuple[float, float]] = []
        settings = {"bootstrap.servers": servers, "group.id": "bench-spark", "enable.auto.commit": False}
        self._consumer = Consumer({**settings, "isolation.level": "read_committed", "fetch.wait.max.ms": 100})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._stopped = threading.Event()

    def __enter__(self) -> _Receiver:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()
        self._consumer.close()

    def run(self) -> None:
        while not self._stopped.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.arrivals.append((_DUE.unpack_from(message.value() or b"")[0], time.time()))

    def await_one(self) -> None:
        self._await(lambda: bool(self.arrivals), START_TIMEOUT_S)

    def await_due(self, due_s: float) -> None:
        """Wait until a record has arrived that was due then. Raises RunFailed at the timeout."""
        self._await(lambda: self.arrivals[-1][0] >= due_s - 0.05, ARRIVE_TIMEOUT_S)

    def _await(self, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise RunFailed(f"no result within {timeout_s} s")
            time.sleep(0.01)
