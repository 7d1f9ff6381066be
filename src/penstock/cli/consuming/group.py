"""Read topics as a member of a group, by librdkafka."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from functools import partial
from typing import NoReturn

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from penstock.cli.connection import (
    CommandConfig,
    client_settings,
    explain,
    reported_errors,
    require_broker,
    require_login,
)
from penstock.cli.consuming.limits import Limits
from penstock.cli.coordinator import SILENCE_S, require_coordinator
from penstock.cli.records.record import Consumed
from penstock.cli.similar_names import topics_like

_POLL_S = 0.2


def group_records(
    topics: list[str],
    group: str,
    limits: Limits,
    bootstrap: str,
    command_config: CommandConfig,
    *,
    from_beginning: bool,
    isolation_level: str,
) -> Generator[Consumed, None, None]:
    """Yield records in the order of arrival. Asking for the next one marks the last one as printed."""
    settings = client_settings(
        bootstrap,
        command_config,
        {
            "group.id": group,
            "enable.auto.commit": True,
            "enable.auto.offset.store": False,  # only what was printed is committed
            "auto.offset.reset": "earliest" if from_beginning else "latest",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        },
    )
    require_broker(bootstrap, settings)
    require_login(bootstrap, command_config)
    with reported_errors(bootstrap):
        consumer = Consumer(settings)
        try:
            reading = _Reading(consumer, limits, bootstrap, command_config, group)
            consumer.subscribe(topics, on_assign=reading.assigned)
            for message in reading.messages():
                yield _consumed(message)
                consumer.store_offsets(message)
        finally:
            consumer.close()


class _Reading:
    """Polls a member of a group until there is a reason to end."""

    def __init__(
        self, consumer: Consumer, limits: Limits, bootstrap: str, command_config: CommandConfig, group: str
    ) -> None:
        self._consumer = consumer
        self._limits = limits
        self._bootstrap = bootstrap
        self._require_coordinator = partial(require_coordinator, bootstrap, command_config, group)
        self._asks_at_s: float | None = time.monotonic() + SILENCE_S
        """When to ask for the reason why there are no partitions yet; None once there are some, or it did."""

    def assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Set the partitions to read; the callback of a group's rebalance."""
        self._limits.assigned((tp.topic, tp.partition) for tp in partitions)
        self._asks_at_s = None

    def messages(self) -> Iterator[Message]:
        """Yield records in the order of arrival; an error that is not retriable ends the command."""
        while not self._limits.is_over:
            message = self._consumer.poll(_POLL_S)
            if message is None:
                if self._asks_at_s is not None and time.monotonic() >= self._asks_at_s:
                    self._asks_at_s = None
                    self._require_coordinator()
                continue
            error = message.error()
            if error is None:
                self._limits.count(_place(message))
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                self._limits.reached_end(_place(message))
            elif error.fatal() or not error.retriable():
                self._explain(error, message.topic())

    def _explain(self, error: KafkaError, topic: str | None) -> NoReturn:
        if topic is None:  # an error about the group
            explain(error, self._bootstrap)
        explain(error, self._bootstrap, f"topic {topic!r}", partial(topics_like, self._consumer, topic))


def _place(message: Message) -> tuple[str, int]:
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return topic, partition


def _consumed(message: Message) -> Consumed:
    topic, partition = _place(message)
    offset = message.offset()
    assert offset is not None
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return Consumed(
        topic,
        partition,
        offset,
        timestamp_ms=message.timestamp()[1],
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=[(name, _bytes(value)) for name, value in pairs],
    )


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
