"""The demo's topics: their names, their configuration, and creating them."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

CREATE_TIMEOUT_S = 10.0
LOG_LEVEL_CRITICAL = 2  # of syslog; what librdkafka says above it would break into the view

# Flights carry their own time of 2013, which any retention by time would find expired at once.
EVENTS_CONFIG = {"retention.ms": "-1"}
TABLE_CONFIG = {"cleanup.policy": "compact"}


class TopicsExist(RuntimeError):
    """A topic of that name is there already; the demo neither mixes its events with others nor deletes."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The names under one prefix, so that several runs fit on one cluster."""

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
    def delays(self) -> str:
        return f"{self.prefix}.delays"


def create_topics(bootstrap_servers: str, topics: Topics, partitions: int) -> None:
    """Create all topics with `partitions` partitions each and the cluster's default replication.

    Raises `TopicsExist`, or `KafkaException` if the cluster refuses or cannot be reached.
    """
    configs = {
        topics.flights: EVENTS_CONFIG,
        topics.delays: EVENTS_CONFIG,
        topics.airlines: TABLE_CONFIG,
        topics.airports: TABLE_CONFIG,
        topics.planes: TABLE_CONFIG,
        topics.weather: TABLE_CONFIG,
    }
    new = [NewTopic(name, partitions, config=config) for name, config in configs.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": LOG_LEVEL_CRITICAL})
    for name, created in admin.create_topics(new, request_timeout=CREATE_TIMEOUT_S).items():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicsExist(f"topic {name} exists: choose another prefix with --prefix") from None
            raise
