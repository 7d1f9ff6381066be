"""`penstock produce`: write lines from a file or standard input to a topic."""

import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
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
from penstock.cli.input_lines import lines_of
from penstock.cli.output import console, print_json, print_note
from penstock.cli.records.codec import Encoder, InvalidValue, shown
from penstock.cli.records.formats import Format, KeyFormat, Side, ValueFormat
from penstock.cli.records.record_json import InvalidJsonRecord, record_from_json
from penstock.cli.records.simple import read_json
from penstock.cli.registry_option import DEFAULT_URL, Url
from penstock.cli.similar_names import topics_like
from penstock.cli.unacknowledged import Unacknowledged

DELIVERY_TIMEOUT_MS = 30_000
POLL_S = 0.1
_WITHOUT_REASON = {KafkaError._MSG_TIMED_OUT, KafkaError._UNKNOWN_TOPIC}
"""librdkafka's own errors of records, for which the brokers have the reason.

For a topic that cannot be used it reports either the second one or the brokers' error, by the time at which
their answer arrives.
"""


class Compression(StrEnum):
    """The codecs of record batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """The replicas that must have a record before it counts as written."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


Headers = list[tuple[str, str | bytes | None]]


class Record(NamedTuple):
    """The record of one input line."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None
    timestamp_ms: int | None = None


class _Encoders(NamedTuple):
    """The encoders of keys and values; None leaves bytes as they are."""

    key: Encoder | None
    value: Encoder | None


class _Deliveries:
    """Counts delivery reports and keeps the first error."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0
        self.first_error: KafkaError | None = None
        self.first_partition: int | None = None
        """The partition of the first record that failed; None if it had none yet."""

    @property
    def finished(self) -> int:
        return self.delivered + self.failed

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            partition = message.partition()
            self.fail(error, None if partition is None or partition < 0 else partition)

    def fail(self, error: KafkaError, partition: int | None) -> None:
        """Count a record that failed, perhaps before it was sent."""
        self.failed += 1
        if self.first_error is None:
            self.first_error = error
            self.first_partition = partition


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic name.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read this file instead of standard input."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="KEY", help="The key of every record.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", "-K", metavar="TEXT", help="Split each line at this text into key and value."
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record; repeatable."),
    ] = None,
    json_lines: Annotated[
        bool,
        typer.Option(
            "--json-lines", help="Read each line as a record in the format that `consume --json` prints."
        ),
    ] = False,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition",
            "-p",
            metavar="N",
            min=0,
            help="Write to this partition. Default: by the hash of the key.",
        ),
    ] = None,
    compression: Annotated[
        Compression, typer.Option(metavar="CODEC", help="The compression: none, gzip, snappy, lz4 or zstd.")
    ] = Compression.NONE,
    acks: Annotated[
        Acks, typer.Option(metavar="ACKS", help="The required acknowledgements: 0, 1 or all.")
    ] = Acks.ALL,
    key_format: KeyFormat = Format.BYTES,
    value_format: ValueFormat = Format.BYTES,
    key_schema: Annotated[
        str | None,
        typer.Option(
            "--key-schema",
            metavar="FILE|TEXT|ID",
            help="The schema of keys, which is registered as TOPIC-key. Default: the subject's latest.",
        ),
    ] = None,
    value_schema: Annotated[
        str | None,
        typer.Option(
            "--value-schema",
            metavar="FILE|TEXT|ID",
            help="The schema of values, which is registered as TOPIC-value. Default: the subject's latest.",
        ),
    ] = None,
    key_message: Annotated[
        str | None,
        typer.Option(
            "--key-message",
            metavar="NAME",
            help="The full name of the Protobuf message of keys. Default: the first of the schema.",
        ),
    ] = None,
    value_message: Annotated[
        str | None,
        typer.Option("--value-message", metavar="NAME", help="The message of values, as for --key-message."),
    ] = None,
    registry: Url = DEFAULT_URL,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Write one record for each line of input, and wait until all are acknowledged.

    In the formats json, avro, json-schema and protobuf, a line is JSON; for Avro in its JSON encoding, as
    Confluent's console producer reads it.
    """
    headers = [_header(text) for text in header or []]
    settings = client_settings(
        bootstrap,
        command_config,
        {
            "compression.type": compression.value,
            "acks": acks.value,
            "enable.idempotence": acks is Acks.ALL,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
            "linger.ms": 5,
        },
    )
    require_broker(bootstrap, settings)
    require_login(bootstrap, command_config)
    encoders = _Encoders(
        Side("key", key_format, registry, key_schema, key_message).encoder(topic),
        Side("value", value_format, registry, value_schema, value_message).encoder(topic),
    )
    deliveries = _Deliveries()
    with reported_errors(bootstrap):
        producer = Producer(settings)
    waiting = Unacknowledged(
        producer, client_settings(bootstrap, command_config), topic, needs_isr=acks is Acks.ALL
    )

    def poll(timeout_s: float = 0.0) -> None:
        producer.poll(timeout_s)
        waiting.report(deliveries.finished, partition)

    interrupted = False
    invalid = None
    try:
        for number, line in enumerate(_lines(file, poll), start=1):
            try:
                record = (
                    _from_json(line, encoders)
                    if json_lines
                    else _from_line(line, key, key_separator, encoders)
                )
            except (InvalidJsonRecord, InvalidValue) as error:
                invalid = f"line {number}: {error}"
                break
            _send(producer, topic, record, headers, partition, deliveries, poll)
        _wait_for_deliveries(producer, poll)
    except KeyboardInterrupt:
        interrupted = True
        _wait_for_deliveries(producer, poll)
    if deliveries.first_error is not None:
        print_note(f"{deliveries.delivered} records acknowledged, {deliveries.failed} failed")
        about = f"topic {topic!r}"
        if deliveries.first_error.code() in _WITHOUT_REASON:
            with reported_errors(bootstrap):
                obstacle = waiting.obstacle(deliveries.first_partition)
            if obstacle is not None:
                fail(f"{about}: {obstacle.reason}", obstacle.exit_code)
        explain(deliveries.first_error, bootstrap, about, partial(topics_like, producer, topic))
    if invalid is not None:
        print_note(f"{deliveries.delivered} records acknowledged before the invalid line")
        fail(invalid, EXIT_USAGE)
    if json_output:
        print_json({"topic": topic, "acknowledged": deliveries.delivered})
    else:
        count = f"{deliveries.delivered} record{'' if deliveries.delivered == 1 else 's'}"
        console().print(f"{count} acknowledged by {topic}", markup=False)
    if interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _lines(file: Path | None, when_idle: Callable[[], None]) -> Iterator[bytes]:
    if file is None:
        if sys.stdin.isatty():
            print_note("one record for each line; Ctrl-D ends")
        yield from lines_of(sys.stdin.buffer, when_idle)
        return
    try:
        with file.open("rb") as source:
            yield from lines_of(source, when_idle)
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", EXIT_USAGE)


def _wait_for_deliveries(producer: Producer, poll: Callable[[float], None]) -> None:
    """Wait until each record is acknowledged or has timed out; `flush()` is not safe to interrupt."""
    while len(producer):
        poll(POLL_S)


def _header(text: str) -> tuple[str, str | bytes | None]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        fail(f"expected --header NAME=VALUE, found {text!r}", EXIT_USAGE)
    return name, value.encode()


def _from_line(line: bytes, key: str | None, key_separator: str | None, encoders: _Encoders) -> Record:
    """Make the record of a line. Raises InvalidValue."""
    found_key, value = None if key is None else key.encode(), line
    if key_separator is not None:
        found_key, separator, value = line.partition(key_separator.encode())
        if not separator:
            raise InvalidValue(f"found {shown(line)}, expected {key_separator!r} between key and value")
    return Record(
        found_key if found_key is None or encoders.key is None else encoders.key.of_text(found_key),
        value if encoders.value is None else encoders.value.of_text(value),
        [],
    )


def _from_json(line: bytes, encoders: _Encoders) -> Record:
    """Make the record of a line of JSON. Raises InvalidJsonRecord, InvalidValue."""
    return Record(**record_from_json(read_json(line), *encoders))


def _send(
    producer: Producer,
    topic: str,
    record: Record,
    headers: Headers,
    partition: int | None,
    deliveries: _Deliveries,
    poll: Callable[[float], None],
) -> None:
    chosen = record.partition if partition is None else partition
    while True:
        try:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=headers + record.headers,
                partition=-1 if chosen is None else chosen,
                on_delivery=deliveries,
                timestamp=record.timestamp_ms or 0,  # 0: now
            )
        except BufferError:
            poll(POLL_S)
        except KafkaException as error:
            # The record was never sent: the partition is unknown or the record exceeds message.max.bytes.
            deliveries.fail(error.args[0], chosen)
            return
        else:
            poll(0)
            return
