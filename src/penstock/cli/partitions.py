"""Parse and sort topics and partitions on the command line, and list their offsets."""

import re
from collections.abc import Iterable

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.cli.connection import EXIT_USAGE, REQUEST_TIMEOUT_S, fail, reported_errors, result_of

PartitionKey = tuple[str, int]


def parse_partitions(text: str) -> tuple[str, list[int]]:
    """Parse `TOPIC` or `TOPIC:0,1` into the topic's name and the named partitions (none for `TOPIC`)."""
    match = re.fullmatch(r"([^:]+)(?::(\d+(?:,\d+)*))?", text)
    if match is None:
        fail(f"expected TOPIC or TOPIC:0,1,…, found {text!r}", EXIT_USAGE)
    return match[1], [int(number) for number in match[2].split(",")] if match[2] else []


def is_internal(topic: str) -> bool:
    """Whether a topic is the cluster's own by its name, such as `__consumer_offsets`."""
    return topic.startswith("__")


def list_offsets(
    client: AdminClient, partitions: Iterable[PartitionKey], spec: OffsetSpec, bootstrap: str
) -> dict[PartitionKey, int]:
    """Ask the leaders for an offset of each partition. Ends the command if a partition has none."""
    with reported_errors(bootstrap):
        futures = client.list_offsets(
            {TopicPartition(topic, partition): spec for topic, partition in partitions},
            request_timeout=REQUEST_TIMEOUT_S,
        )
    return {(tp.topic, tp.partition): result_of(future, bootstrap).offset for tp, future in futures.items()}
