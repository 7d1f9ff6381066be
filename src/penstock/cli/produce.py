"""`penstock produce`: write lines from a file or standard input to a topic."""

import json
import sys
from collections.abc import Iterator
from enum import StrEnum
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
)
from penstock.cli.output import console, print_json, print_note
from penstock.cli.record_json import InvalidJsonRecord, record_from_json

DELIVERY_TIMEOUT_MS = 30_000
POLL_S = 0.1


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


class _Deliveries:
    """Counts delivery reports and keeps the first error."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0
        self.first_error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1
            self.first_error = self.first_error or error


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
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Write one record for each line of input, and wait until all are acknowledged."""
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
    require_broker(bootstrap)
    deliveries = _Deliveries()
    with reported_errors(bootstrap):
        producer = Producer(settings)
    interrupted = False
    try:
        for number, line in enumerate(_lines(file), start=1):
            record = _from_json(line, number) if json_lines else _from_line(line, number, key, key_separator)
            _send(producer, topic, record, headers, partition, deliveries)
        _wait_for_deliveries(producer)
    except KeyboardInterrupt:
        interrupted = True
        _wait_for_deliveries(producer)
    if deliveries.first_error is not None:
        print_note(f"{deliveries.delivered} records acknowledged, {deliveries.failed} failed")
        explain(deliveries.first_error, bootstrap, f"topic {topic!r}")
    if json_output:
        print_json({"topic": topic, "acknowledged": deliveries.delivered})
    else:
        count = f"{deliveries.delivered} record{'' if deliveries.delivered == 1 else 's'}"
        console().print(f"{count} acknowledged by {topic}", markup=False)
    if interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _lines(file: Path | None) -> Iterator[bytes]:
    if file is None:
        if sys.stdin.isatty():
            print_note("one record for each line; Ctrl-D ends")
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
        return
    try:
        with file.open("rb") as source:
            yield from (line.rstrip(b"\r\n") for line in source)
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", EXIT_USAGE)


def _wait_for_deliveries(producer: Producer) -> None:
    """Wait until each record is acknowledged or has timed out; `flush()` is not safe to interrupt."""
    while len(producer):
        producer.poll(POLL_S)


def _header(text: str) -> tuple[str, str | bytes | None]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        fail(f"expected --header NAME=VALUE, found {text!r}", EXIT_USAGE)
    return name, value.encode()


def _from_line(line: bytes, number: int, key: str | None, key_separator: str | None) -> Record:
    if key_separator is None:
        return Record(key.encode() if key is not None else None, line, [])
    found_key, separator, value = line.partition(key_separator.encode())
    if not separator:
        fail(f"line {number}: no {key_separator!r} between key and value in {line[:80]!r}", EXIT_USAGE)
    return Record(found_key, value, [])


def _from_json(line: bytes, number: int) -> Record:
    try:
        fields = record_from_json(json.loads(line))
    except (ValueError, InvalidJsonRecord) as error:
        fail(f"line {number}: {error}", EXIT_USAGE)
    return Record(**fields)


def _send(
    producer: Producer,
    topic: str,
    record: Record,
    headers: Headers,
    partition: int | None,
    deliveries: _Deliveries,
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
            producer.poll(POLL_S)
        except KafkaException as error:
            # The record was never sent: the partition is unknown or the record exceeds message.max.bytes.
            deliveries.failed += 1
            deliveries.first_error = deliveries.first_error or error.args[0]
            return
        else:
            producer.poll(0)
            return
