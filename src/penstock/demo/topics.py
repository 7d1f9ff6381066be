"""The demo's topics: their names, their configuration, and their creation."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

CREATE_TIMEOUT_S = 10.0
LOG_LEVEL_CRITICAL = 2
"""A syslog level; librdkafka's less severe messages would break into the view."""

CONFIG = {"retention.ms": "-1"}
"""Keeps every record, also of tables: the check reads the whole input again.

Flights have timestamps of 2013, which any time-based retention would expire at once.
"""


class TopicsExist(RuntimeError):
    """A topic of that name exists; the demo neither mixes its events with others nor deletes topics."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The topic names under one prefix, so that several runs fit on one cluster.

    The prefix alone is the application's name, and so that of its consumer group and its own topics.
    """

    prefix: str = "nyc"

    @property
    def flights(self) -> str:
        return f"{self.prefix}.flights"

    @property
    def airlines(self) -> str:
        return f"{self.prefix}.airlines"

    @property
    def airports(self) -> str:
        return f"{self.prefix}.airports"

    @property
    def planes(self) -> str:
        return f"{self.prefix}.planes"

    @property
    def weather(self) -> str:
        return f"{self.prefix}.weather"

    @property
    def hours(self) -> str:
        return f"{self.prefix}.hours"

    @property
    def airline_delays(self) -> str:
        return f"{self.prefix}.airline-delays"

    @property
    def destination_delays(self) -> str:
        return f"{self.prefix}.destination-delays"

    @property
    def weather_delays(self) -> str:
        return f"{self.prefix}.weather-delays"

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.flights, self.airlines, self.airports, self.planes, self.weather

    @property
    def results(self) -> tuple[str, ...]:
        return self.hours, self.airline_delays, self.destination_delays, self.weather_delays


def create_topics(bootstrap_servers: str, topics: Topics, partitions: int) -> None:
    """Create all topics with `partitions` partitions each and the cluster's default replication.

    Raises `TopicsExist`, or `KafkaException` if the cluster refuses or cannot be reached.
    """
    new = [NewTopic(name, partitions, config=CONFIG) for name in (*topics.inputs, *topics.results)]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": LOG_LEVEL_CRITICAL})
    for name, created in admin.create_topics(new, request_timeout=CREATE_TIMEOUT_S).items():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicsExist(f"topic {name} exists: choose another prefix with --prefix") from None
            raise
