"""What any user can see of the application while it runs, by a client that is not ours: the lag of its
consumer group, and its results as they are committed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.demo.topics import LOG_LEVEL_CRITICAL, Topics

REQUEST_TIMEOUT_S = 5.0
RESULTS_WAIT_S = 0.05
POLL_RECORDS_MAX = 50_000

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Lag:
    """Of the application's group, in records: ``read`` of the inputs, ``behind`` in them, and
    ``under_way`` in its own repartition topics (where transactions' markers count).
    """

    read: int
    behind: int
    under_way: int

    @property
    def is_drained(self) -> bool:
        return not self.behind and not self.under_way


@dataclass(frozen=True, slots=True)
class Airline:
    """What the application knows of an airline."""

    name: str
    flights: int
    cancelled: int
    delayed: int
    minutes: int
    seats: int

    @property
    def mean_minutes(self) -> float:
        return self.minutes / max(1, self.flights - self.cancelled)


class Monitor:
    """Asks the cluster; not thread-safe. While the node is away it tells what it knew last."""

    def __init__(self, bootstrap_servers: str, topics: Topics, partitions: int) -> None:
        self._group = topics.prefix
        self._inputs: list[Place] = [(topic, p) for topic in topics.inputs for p in range(partitions)]
        self._topics = topics
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL_CRITICAL,
            "reconnect.backoff.max.ms": 500,
        }
        self._admin = AdminClient(settings)
        self._consumer = Consumer(
            settings
            | {
                "group.id": "penstock-demo-view",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        self._consumer.assign(
            [TopicPartition(name, p, OFFSET_BEGINNING) for name in topics.results for p in range(partitions)]
        )
        self._lag = Lag(0, 0, 0)
        self._airlines: dict[str, Airline] = {}
        self.results = 0
        """How many results have come."""

    def lag(self) -> Lag:
        """The group's, now; while the node is away the last that was known."""
        try:
            self._lag = self._ask_lag()
        except KafkaException:
            time.sleep(0.1)  # and it may be refused at once
        return self._lag

    def _ask_lag(self) -> Lag:
        # First what is committed, then the ends: a batch that is committed between the two can make the lag
        # too large, never too small.
        wanted = ConsumerGroupTopicPartitions(self._group)
        asked = self._admin.list_consumer_group_offsets(
            [wanted], require_stable=True, request_timeout=REQUEST_TIMEOUT_S
        )
        found = asked[self._group].result().topic_partitions or []
        committed: dict[Place, int] = {(tp.topic, tp.partition): max(0, tp.offset) for tp in found}
        places = sorted({*committed, *self._inputs})
        latest = self._admin.list_offsets(
            {TopicPartition(*place): OffsetSpec.latest() for place in places},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        ends: Mapping[Place, int] = {
            (tp.topic, tp.partition): end.result().offset for tp, end in latest.items()
        }
        inputs = set(self._inputs)
        read = sum(committed.get(place, 0) for place in inputs)
        behind = sum(ends[place] - committed.get(place, 0) for place in inputs)
        return Lag(
            read, behind, sum(ends[place] - committed[place] for place in places if place not in inputs)
        )

    def read_results(self, all_of_them: bool = False) -> None:
        """Take up the results that have come; with ``all_of_them`` until no more come."""
        while True:
            messages = self._consumer.consume(POLL_RECORDS_MAX, timeout=RESULTS_WAIT_S)
            good = [message for message in messages if message.error() is None]
            self.results += len(good)
            newest = {m.key(): m.value() for m in good if m.topic() == self._topics.airline_delays}
            for key, value in newest.items():
                self._note_airline((key or b"").decode(), value)
            if not all_of_them or not messages:
                return

    def _note_airline(self, carrier: str, value: bytes | None) -> None:
        if value is None:
            self._airlines.pop(carrier, None)
            return
        row = json.loads(value)
        name = row.pop("airline")
        self._airlines[carrier] = Airline(name or carrier, **row)

    def worst_airlines(self) -> Sequence[Airline]:
        """By mean delay, the worst first."""
        return sorted(self._airlines.values(), key=lambda airline: -airline.mean_minutes)

    def close(self) -> None:
        self._consumer.close()
