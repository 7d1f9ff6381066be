"""`penstock txn`: list, describe and abort transactions, including hanging ones."""

import time
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
from penstock.cli.open_cluster import open_cluster
from penstock.cli.output import console, print_json, print_table
from penstock.cli.partitions import parse_partitions
from penstock.cli.timestamps import parse_duration_ms
from penstock.client.admin import transactions
from penstock.client.admin.transactions import ActiveProducer
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition

app = typer.Typer(help="List, describe and abort transactions, including hanging ones.", no_args_is_help=True)

DEFAULT_HANGING = "15m"
"""The longest timeout that a broker allows by default.

A transaction open for longer should have been aborted.
"""

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC[:P,P]", help="A topic or some of its partitions; repeatable."
    ),
]


@app.command("list")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only list this state, such as Ongoing; repeatable."),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", metavar="ID", help="Only list this producer; repeatable."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            metavar="REGEX",
            help="Only list transactional ids that fully match this regular expression.",
        ),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than",
            metavar="TIME",
            help="Only list transactions open for longer than this: 90s, 15m, 2h.",
        ),
    ] = None,
    hanging: Annotated[
        bool,
        typer.Option(
            "--hanging",
            help="Instead, search partitions for open transactions that no coordinator knows. "
            f"Takes --topic and --longer-than (default: {DEFAULT_HANGING}) only.",
        ),
    ] = False,
    topic: Topics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """List transactional ids with the state of their transactions, or hanging transactions."""
    if hanging and (state or producer_id or pattern is not None):
        fail("--hanging takes --topic and --longer-than only", EXIT_USAGE)
    if topic and not hanging:
        fail("--topic needs --hanging: a transactional id belongs to no topic", EXIT_USAGE)
    duration_ms = None if longer_than is None else parse_duration_ms(longer_than)
    with open_cluster(bootstrap, command_config) as cluster:
        if hanging:
            _list_hanging(cluster, topic or [], duration_ms, json_output)
            return
        listings = transactions.list_transactions(
            cluster,
            states=state or (),
            producer_ids=producer_id or (),
            longer_than_ms=transactions.NO_FILTER_MS if duration_ms is None else duration_ms,
            pattern=pattern,
        )
    if json_output:
        print_json([listing._asdict() for listing in listings])
    else:
        print_table(
            ["TRANSACTIONAL ID", "STATE", "PRODUCER ID", "COORDINATOR"],
            [(t.transactional_id, t.state, t.producer_id, t.coordinator_id) for t in listings],
        )


def _list_hanging(cluster: Cluster, topics: list[str], longer_than_ms: int | None, json_output: bool) -> None:
    if longer_than_ms is None:
        longer_than_ms = parse_duration_ms(DEFAULT_HANGING)
    found = transactions.hanging_transactions(
        cluster, _partitions(cluster, topics), longer_than_ms, int(time.time() * 1000)
    )
    _show_producers(found, json_output)


@app.command()
def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="TRANSACTIONAL_ID")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Show the state of a transactional id, its producer, and the partitions of its transaction."""
    with open_cluster(bootstrap, command_config) as cluster:
        found = transactions.describe_transaction(cluster, transactional_id)
    open_ms = None
    if found.partitions and found.start_timestamp_ms >= 0:
        open_ms = max(int(time.time() * 1000) - found.start_timestamp_ms, 0)
    if json_output:
        print_json(
            {**found._asdict(), "open_ms": open_ms, "partitions": [list(tp) for tp in found.partitions]}
        )
        return
    print_table(
        ["TRANSACTIONAL ID", "STATE", "PRODUCER ID", "EPOCH", "COORDINATOR", "TIMEOUT", "OPEN FOR"],
        [
            (
                found.transactional_id,
                found.state,
                found.producer_id,
                found.producer_epoch,
                found.coordinator_id,
                f"{found.timeout_ms / 1000:g} s",
                None if open_ms is None else f"{open_ms / 1000:.1f} s",
            )
        ],
    )
    if found.partitions:
        console().print()
        print_table(["TOPIC", "PARTITION"], sorted(found.partitions))


@app.command()
def producers(
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC[:P,P]", help="Topics or partitions.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Show the producers that write to partitions, and where their open transactions begin."""
    with open_cluster(bootstrap, command_config) as cluster:
        found = transactions.active_producers(cluster, _partitions(cluster, topic))
    _show_producers(found, json_output)


@app.command()
def abort(
    transactional_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[TRANSACTIONAL_ID]",
            help="The id whose open transaction to abort and whose producer to fence.",
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", metavar="TOPIC:P", help="The partition in which a transaction hangs."),
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", metavar="OFFSET", min=0, help="The first offset of the transaction."),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", metavar="ID", min=0, help="The transaction's producer id.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Abort the transaction of a transactional id, or one that hangs in a partition.

    A hanging transaction is identified by its partition and either its start offset or its producer. It is
    aborted in that partition only, and without its coordinator: make sure that it hangs.
    """
    if (transactional_id is None) == (topic is None):
        fail("give either a transactional id or --topic", EXIT_USAGE)
    if topic is None and (start_offset is not None or producer_id is not None):
        fail("--start-offset and --producer-id belong to --topic", EXIT_USAGE)
    if topic is not None and start_offset is None and producer_id is None:
        fail("--topic needs --start-offset or --producer-id", EXIT_USAGE)
    with open_cluster(bootstrap, command_config) as cluster:
        if transactional_id is not None:
            _fence(cluster, transactional_id, json_output)
        elif topic is not None:
            _abort_hanging(cluster, topic, start_offset, producer_id, json_output)


def _fence(cluster: Cluster, transactional_id: str, json_output: bool) -> None:
    # Fencing an unknown id would create it; this raises an error instead.
    before = transactions.describe_transaction(cluster, transactional_id)
    producer_id, epoch = transactions.fence(cluster, transactional_id)
    if json_output:
        print_json(
            {
                "transactional_id": transactional_id,
                "state_before": before.state,
                "producer_id": producer_id,
                "producer_epoch": epoch,
            }
        )
        return
    done = "aborted its transaction, and" if before.state == "Ongoing" else "had no open transaction;"
    console().print(f"{transactional_id}: {done} its producer is fenced", markup=False)


def _abort_hanging(
    cluster: Cluster, topic: str, start_offset: int | None, producer_id: int | None, json_output: bool
) -> None:
    name, numbers = parse_partitions(topic)
    if len(numbers) != 1:
        fail(f"expected one partition as TOPIC:P, found {topic!r}", EXIT_USAGE)
    tp = TopicPartition(name, numbers[0])
    found = [
        producer
        for producer in transactions.active_producers(cluster, [tp])
        if producer.start_offset >= 0
        and start_offset in (None, producer.start_offset)
        and producer_id in (None, producer.producer_id)
    ]
    if not found:
        fail(f"{tp}: no such transaction is open; `penstock txn producers {topic}` lists the open ones")
    # A producer has one transaction at a time, and an offset has one writer.
    [producer] = found
    transactions.write_abort_marker(cluster, producer)
    if json_output:
        print_json({**_row(producer), "aborted": True})
    else:
        console().print(
            f"{tp}: aborted the transaction of producer {producer.producer_id} "
            f"from offset {producer.start_offset}",
            markup=False,
        )


# -- shared by the commands ------------------------------------------------------------------------------


def _partitions(cluster: Cluster, topics: list[str]) -> list[TopicPartition]:
    """The named partitions, or all partitions."""
    wanted = dict(map(parse_partitions, topics))
    known = cluster.refresh().topics if not wanted else cluster.require_topics(wanted)
    return [
        TopicPartition(name, number)
        for name, topic in known.items()
        for number in wanted.get(name) or topic.partitions
    ]


def _row(producer: ActiveProducer) -> dict[str, str | int | None]:
    return {
        "topic": producer.partition.topic,
        "partition": producer.partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": _known(producer.coordinator_epoch),
        "last_sequence": _known(producer.last_sequence),
        "last_timestamp_ms": _known(producer.last_timestamp_ms),
        "start_offset": _known(producer.start_offset),
    }


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _show_producers(found: list[ActiveProducer], json_output: bool) -> None:
    rows = [_row(producer) for producer in sorted(found)]
    if json_output:
        print_json(rows)
        return
    now_ms = time.time() * 1000
    print_table(
        ["TOPIC", "PARTITION", "PRODUCER ID", "EPOCH", "COORDINATOR EPOCH", "START OFFSET", "LAST WRITTEN"],
        [
            (
                producer.partition.topic,
                producer.partition.partition,
                producer.producer_id,
                producer.producer_epoch,
                _known(producer.coordinator_epoch),
                _known(producer.start_offset),
                f"{max(now_ms - producer.last_timestamp_ms, 0) / 1000:.0f} s ago",
            )
            for producer in sorted(found)
        ],
    )
