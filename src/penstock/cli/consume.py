"""`penstock consume`: print a topic's records."""

from contextlib import closing
from typing import Annotated

import typer

from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    Bootstrap,
    CommandConfig,
    JsonOutput,
    fail,
)
from penstock.cli.consuming.group import group_records
from penstock.cli.consuming.limits import Limits
from penstock.cli.consuming.partitions import Start, partition_records
from penstock.cli.output import print_error
from penstock.cli.records.formats import Format, KeyFormat, Side, ValueFormat
from penstock.cli.records.layout import InvalidLayout, Layout
from penstock.cli.records.printing import Print, columns_printer, json_line, write
from penstock.cli.records.record import UndecodableRecord, decoded_record
from penstock.cli.registry_option import DEFAULT_URL, Url
from penstock.cli.timestamps import parse_timestamp_ms
from penstock.client.reading.offsets import EARLIEST, LATEST


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
            help="Report a record that is not in the format, or a damaged batch, on standard error, and go "
            "on. Default: exit.",
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
    limits = Limits(max_messages, timeout, exit_at_end)
    isolation_level = "read_uncommitted" if read_uncommitted else "read_committed"

    def report(damage: str) -> None:
        if not skip_undecodable:
            fail(f"{damage} (--skip-undecodable reads on)")
        print_error(damage)

    if group is not None:
        records = group_records(
            topics,
            group,
            limits,
            bootstrap,
            command_config,
            from_beginning=from_beginning,
            isolation_level=isolation_level,
        )
    else:
        first = offset if offset is not None else EARLIEST if from_beginning else LATEST
        records = partition_records(
            topics,
            partition,
            Start(first, timestamp_ms),
            limits,
            report,
            bootstrap,
            command_config,
            isolation_level=isolation_level,
        )
    try:
        with closing(records):
            for record in records:
                try:
                    write(printed(decoded_record(record, decode_key, decode_value)))
                except UndecodableRecord as error:
                    report(str(error))
    except KeyboardInterrupt:
        pass


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
