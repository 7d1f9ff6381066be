"""Observe the running application with a third-party client, as any user can.

It shows the lag of the application's consumer group, and the results as they are committed.
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
    """The lag of the application's group, in records.

    ``read`` and ``behind`` count the inputs; ``under_way`` counts its own repartition topics, including the
    markers of transactions.
    """

    read: int
    behind: int
    under_way: int

    @property
    def is_drained(self) -> bool:
        return not self.behind and not self.under_way


@dataclass(frozen=True, slots=True)
class Airline:
    """The application's current result for an airline."""

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
    """Queries the cluster; not thread-safe. While the node is down it returns the last known values."""

    def __init__(self, bootstrap_servers: str, topics: Topics, partitions: int) -> None:
        self._inputs: list[Place] = [(topic, p) for topic in topics.inputs for p in range(partitions)]
        self._topics = topics
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL_CRITICAL,
            "reconnect.backoff.max.ms": 500,
        }
        # This consumer never joins the group. An admin client would also do, but librdkafka 2.16 aborts its
        # process if the node dies during such a request (librdkafka issue 4605). Offsets of an open
        # transaction are not awaited, because a killed application leaves one behind.
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
        """The number of results received."""

    def lag(self) -> Lag:
        """The group's current lag; the last known lag while the node is down."""
        try:
            self._lag = self._ask_lag()
        except KafkaException:
            time.sleep(0.1)  # The request may be refused at once, so wait.
        return self._lag

    def _ask_lag(self) -> Lag:
        # Read committed offsets first, then the ends: a batch committed between the two can make the lag too
        # large, never too small.
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
        # Changelogs, which the application does not read, have no committed offsets.
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
        """Process the results that have arrived; with ``all_of_them``, until no more arrive."""
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
        """The airlines with enough flights for a mean, by mean delay, the worst first."""
        known = (airline for airline in self._airlines.values() if airline.flights >= FLIGHTS_MIN)
        return sorted(known, key=lambda airline: -airline.mean_minutes)

    def close(self) -> None:
        self._group.close()
        self._consumer.close()
