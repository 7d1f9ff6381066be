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
    OFFSET_END,
    Consumer,
    KafkaException,
    TopicPartition,
)

from penstock.demo.topics import LOG_LEVEL_CRITICAL, Topics

REQUEST_TIMEOUT_S = 3.0
RESULTS_WAIT_S = 0.05
POLL_RECORDS_MAX = 50_000
FLIGHTS_MIN = 100

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
        self._inputs: list[Place] = [(topic, p) for topic in topics.inputs for p in range(partitions)]
        self._topics = topics
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL_CRITICAL,
            "reconnect.backoff.max.ms": 500,
        }
        # It never joins. An admin client would do, but librdkafka 2.16 aborts its process where the node dies
        # while such a request is under way (librdkafka issue 4605). Offsets of an open transaction are not
        # waited for: a killed application leaves one behind.
        self._group = Consumer(settings | {"group.id": topics.prefix, "isolation.level": "read_uncommitted"})
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
        known = self._group.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        places = [
            *self._inputs,
            *(
                (name, partition)
                for name, topic in known.items()
                if name.startswith(f"{self._topics.prefix}-")
                for partition in topic.partitions
            ),
        ]
        found = self._group.committed([TopicPartition(*place) for place in places], REQUEST_TIMEOUT_S)
        # Nothing is committed in the application's topics that it does not read, its changelogs.
        committed = {(tp.topic, tp.partition): tp.offset for tp in found if tp.offset >= 0}
        inputs = set(self._inputs)
        places = [place for place in places if place in committed or place in inputs]
        latest = self._consumer.offsets_for_times(
            [TopicPartition(*place, OFFSET_END) for place in places], REQUEST_TIMEOUT_S
        )
        for tp in latest:
            if tp.error is not None:
                raise KafkaException(tp.error)
        ends: Mapping[Place, int] = {(tp.topic, tp.partition): tp.offset for tp in latest}
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
        """By mean delay, the worst first; those with enough flights for a mean."""
        known = (airline for airline in self._airlines.values() if airline.flights >= FLIGHTS_MIN)
        return sorted(known, key=lambda airline: -airline.mean_minutes)

    def close(self) -> None:
        self._group.close()
        self._consumer.close()
