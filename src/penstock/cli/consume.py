"""`penstock consume`: print a topic's records."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, NoReturn

import typer
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Message, TopicPartition

from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    REQUEST_TIMEOUT_S,
    Bootstrap,
    CommandConfig,
    JsonOutput,
    client_settings,
    explain,
    fail,
    reported_errors,
    require_broker,
    require_login,
)
from penstock.cli.coordinator import SILENCE_S, require_coordinator
from penstock.cli.output import print_error
from penstock.cli.records.formats import Format, KeyFormat, Side, ValueFormat
from penstock.cli.records.layout import InvalidLayout, Layout
from penstock.cli.records.printing import Print, columns_printer, json_line, write
from penstock.cli.records.record import UndecodableRecord, decoded_record
from penstock.cli.registry_option import DEFAULT_URL, Url
from penstock.cli.similar_names import topics_like
from penstock.cli.timestamps import parse_timestamp_ms

POLL_S = 0.2
JOIN_ALLOWANCE_S = 15.0
"""Additional time for a group to form, beside any idle limit."""


def consume(
    topics: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC", help="Topics; with --group also patterns that begin with ^."),
    ],
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning",
            help="Start at the oldest record; with --group, only where the group has no offset yet.",
        ),
    ] = False,
    offset: Annotated[
        int | None, typer.Option("--offset", "-o", metavar="OFFSET", min=0, help="Start at this offset.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp", "-t", metavar="TIME", help="Start at this time (ISO 8601 or milliseconds)."
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", metavar="GROUP", help="Join this group and commit offsets."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", metavar="N", min=0, help="Read only this partition."),
    ] = None,
    max_messages: Annotated[
        int | None,
        typer.Option("--max-messages", "-n", metavar="N", min=1, help="Exit after this many records."),
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Exit at the end of the log.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", help="Exit after this many seconds without a record."),
    ] = None,
    show_key: Annotated[bool, typer.Option("--key", help="Print keys.")] = False,
    show_headers: Annotated[bool, typer.Option("--headers", help="Print headers.")] = False,
    show_timestamp: Annotated[bool, typer.Option("--timestamps", help="Print timestamps.")] = False,
    read_uncommitted: Annotated[
        bool, typer.Option("--read-uncommitted", help="Also print records of open and aborted transactions.")
    ] = False,
    layout: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="TEXT",
            help="Print each record by this text, in kcat's letters: %t topic, %p partition, %o offset, %T "
            "timestamp (ms), %k key, %s or %v value, %K and %S or %V their lengths (-1: null), %R the "
            "value's length as 4 bytes, %h headers, %% a percent sign; \\n, \\r, \\t, \\0 and \\xNN. It "
            "adds no line end.",
        ),
    ] = None,
    key_format: KeyFormat = Format.BYTES,
    value_format: ValueFormat = Format.BYTES,
    skip_undecodable: Annotated[
        bool,
        typer.Option(
            "--skip-undecodable",
            help="Report a record that is not in the format on standard error, and read on. Default: exit.",
        ),
    ] = False,
    registry: Url = DEFAULT_URL,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Print records as they arrive, from the end of the log by default. Ctrl-C ends it.

    Avro is printed in its JSON encoding, as Confluent's console consumer prints it.
    """
    _check_start(from_beginning, offset, timestamp, group, partition)
    printed = _printer(layout, json_output, show_key, show_headers, show_timestamp)
    decode_key = Side("key", key_format, registry).decoder()
    decode_value = Side("value", value_format, registry).decoder()
    timestamp_ms = None if timestamp is None else parse_timestamp_ms(timestamp)
    settings = client_settings(
        bootstrap,
        command_config,
        {
            "group.id": group or f"penstock-console-{time.time_ns()}",
            "enable.auto.commit": group is not None,
            "enable.auto.offset.store": False,  # only what was printed is committed
            "auto.offset.reset": "earliest" if from_beginning else "latest",
            "isolation.level": "read_uncommitted" if read_uncommitted else "read_committed",
            "enable.partition.eof": True,
        },
    )
    require_broker(bootstrap, settings)
    require_login(bootstrap, command_config)
    with reported_errors(bootstrap):
        consumer = Consumer(settings)
        try:
            reading = _Reading(consumer, max_messages, timeout, exit_at_end)
            if group is not None:
                consumer.subscribe(topics, on_assign=reading.assigned)
                reading.in_group(partial(require_coordinator, bootstrap, command_config, group))
            else:
                positions = _start_positions(
                    consumer, topics, partition, from_beginning, offset, timestamp_ms, bootstrap
                )
                consumer.assign(positions)
                reading.assigned(consumer, positions)
            for message in reading.messages(bootstrap):
                try:
                    write(printed(decoded_record(message, decode_key, decode_value)))
                except UndecodableRecord as error:
                    if not skip_undecodable:
                        fail(f"{error} (--skip-undecodable reads on)")
                    print_error(str(error))
                if group is not None:
                    consumer.store_offsets(message)
        except KeyboardInterrupt:
            pass
        finally:
            consumer.close()


def _check_start(
    from_beginning: bool, offset: int | None, timestamp: str | None, group: str | None, partition: int | None
) -> None:
    if sum((from_beginning, offset is not None, timestamp is not None)) > 1:
        fail("give at most one of --from-beginning, --offset and --timestamp", EXIT_USAGE)
    if group is not None and (offset is not None or timestamp is not None or partition is not None):
        fail(
            "--group starts at the group's offsets: it excludes --offset, --timestamp and --partition "
            "(`penstock group reset-offsets` moves a group)",
            EXIT_USAGE,
        )


def _printer(
    layout: str | None, json_output: bool, show_key: bool, show_headers: bool, show_timestamp: bool
) -> Print:
    if layout is None and json_output:
        return json_line
    if layout is None:
        return columns_printer(key=show_key, headers=show_headers, timestamp=show_timestamp)
    if json_output or show_key or show_headers or show_timestamp:
        fail(
            "--format names all that is printed: it excludes --json, --key, --headers, --timestamps",
            EXIT_USAGE,
        )
    try:
        return Layout(layout).format
    except InvalidLayout as error:
        fail(f"--format: {error}", EXIT_USAGE)


def _start_positions(
    consumer: Consumer,
    topics: list[str],
    partition: int | None,
    from_beginning: bool,
    offset: int | None,
    timestamp_ms: int | None,
    bootstrap: str,
) -> list[TopicPartition]:
    positions: list[TopicPartition] = []
    for topic in topics:
        metadata = consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
        if metadata.error is not None:
            explain(metadata.error, bootstrap, f"topic {topic!r}", partial(topics_like, consumer, topic))
        numbers = sorted(metadata.partitions)
        if partition is not None and partition not in numbers:
            fail(f"topic {topic!r} has no partition {partition}: it has {len(numbers)}")
        positions += [TopicPartition(topic, p) for p in numbers if partition in (None, p)]
    if timestamp_ms is not None:
        asked = [TopicPartition(tp.topic, tp.partition, timestamp_ms) for tp in positions]
        return consumer.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_S)
    for position in positions:
        position.offset = offset if offset is not None else OFFSET_BEGINNING if from_beginning else OFFSET_END
    return positions


class _Reading:
    """Polls until there is a reason to end. The idle time counts once partitions are assigned."""

    def __init__(
        self, consumer: Consumer, max_messages: int | None, idle_limit_s: float | None, exit_at_end: bool
    ) -> None:
        self._consumer = consumer
        self._left = max_messages
        self._idle_limit_s = idle_limit_s
        self._exit_at_end = exit_at_end
        self._at_end: set[tuple[str | None, int | None]] = set()
        self._assigned: set[tuple[str | None, int | None]] = set()
        self._idle_since_s = time.monotonic() + JOIN_ALLOWANCE_S
        self._require_coordinator: Callable[[], None] | None = None
        self._silent_at_s = time.monotonic() + SILENCE_S

    def in_group(self, require_coordinator: Callable[[], None]) -> None:
        """Expect partitions from a group; *require_coordinator* is called once if that takes a while."""
        self._require_coordinator = require_coordinator

    def assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Set the partitions to read; the callback of a group's rebalance."""
        self._assigned = {(tp.topic, tp.partition) for tp in partitions}
        self._at_end &= self._assigned
        self._idle_since_s = time.monotonic()
        self._require_coordinator = None

    def messages(self, bootstrap: str) -> Iterator[Message]:
        """Yield records in the order of arrival; an error that is not retriable ends the command."""
        while not self._is_over():
            message = self._consumer.poll(POLL_S)
            if message is None:
                if self._require_coordinator is not None and time.monotonic() >= self._silent_at_s:
                    self._require_coordinator()
                    self._require_coordinator = None
                continue
            place = (message.topic(), message.partition())
            error = message.error()
            if error is None:
                self._at_end.discard(place)
                self._idle_since_s = time.monotonic()
                if self._left is not None:
                    self._left -= 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(place)
            elif error.fatal() or not error.retriable():
                self._explain(error, message.topic(), bootstrap)

    def _explain(self, error: KafkaError, topic: str | None, bootstrap: str) -> NoReturn:
        if topic is None:  # an error about the group
            explain(error, bootstrap)
        explain(error, bootstrap, f"topic {topic!r}", partial(topics_like, self._consumer, topic))

    def _is_over(self) -> bool:
        if self._left == 0:
            return True
        if self._exit_at_end and self._assigned and self._at_end >= self._assigned:
            return True
        idle_s = time.monotonic() - self._idle_since_s
        return self._idle_limit_s is not None and idle_s > self._idle_limit_s
