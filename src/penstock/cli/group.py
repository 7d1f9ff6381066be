"""`penstock group`: list, describe, reset and delete consumer groups."""

from typing import Annotated, NamedTuple

import typer
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from rich.markup import escape

from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    REQUEST_TIMEOUT_S,
    Bootstrap,
    CommandConfig,
    JsonOutput,
    admin_client,
    explain,
    fail,
    reported_errors,
    result_of,
)
from penstock.cli.coordinator import group_result
from penstock.cli.output import console, print_json, print_table, print_warning
from penstock.cli.partitions import PartitionKey, list_offsets, parse_partitions
from penstock.cli.similar_names import did_you_mean_topic
from penstock.cli.timestamps import parse_timestamp_ms

app = typer.Typer(help="List, describe, reset and delete consumer groups.", no_args_is_help=True)

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Group id.")]


class PartitionLag(NamedTuple):
    """A group's lag on one partition; a field is None if it is unknown."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    owner: str | None

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else max(self.end - self.committed, 0)


@app.command("list")
def list_groups(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """List groups with their state."""
    client = admin_client(bootstrap, command_config)
    with reported_errors(bootstrap):
        future = client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S)
    result = result_of(future, bootstrap)
    if not result.valid and result.errors:
        explain(result.errors[0], bootstrap)
    rows = sorted(
        (listing.group_id, listing.state.name.lower(), listing.type.name.lower()) for listing in result.valid
    )
    if json_output:
        print_json([{"group": group, "state": state, "type": kind} for group, state, kind in rows])
    else:
        print_table(["GROUP", "STATE", "TYPE"], rows)


@app.command()
def describe(
    group: GroupArgument,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Show a group's state, members, committed offsets and lag."""
    client = admin_client(bootstrap, command_config)
    with reported_errors(bootstrap):
        future = client.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)[group]
    description = group_result(future, bootstrap, command_config, group)
    owners = {
        (tp.topic, tp.partition): member.member_id
        for member in description.members
        for tp in member.assignment.topic_partitions
    }
    lags = _lags(client, _committed(client, group, bootstrap, command_config), owners, bootstrap)
    if description.state is ConsumerGroupState.DEAD and not lags:
        fail(f"there is no group {group!r}")
    state = description.state.name.lower()
    if json_output:
        print_json(
            {
                "group": group,
                "state": state,
                "assignor": description.partition_assignor,
                "coordinator": description.coordinator.id if description.coordinator else None,
                "members": [
                    {
                        "member": member.member_id,
                        "client": member.client_id,
                        "host": member.host,
                        "instance": member.group_instance_id,
                        "partitions": [[tp.topic, tp.partition] for tp in member.assignment.topic_partitions],
                    }
                    for member in description.members
                ],
                "offsets": [{**lag._asdict(), "lag": lag.lag} for lag in lags],
            }
        )
        return
    count = len(description.members)
    console().print(f"[bold]{escape(group)}[/]  {state}  {count} member{'' if count == 1 else 's'}")
    print_table(
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"],
        [(lag.topic, lag.partition, lag.committed, lag.end, lag.lag, lag.owner) for lag in lags],
    )


@app.command("reset-offsets")
def reset_offsets(
    group: GroupArgument,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,P]",
            help="A topic or some of its partitions; repeatable. Default: all with committed offsets.",
        ),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Move to the earliest offset.")] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="Move to the end, past the last record.")
    ] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="OFFSET", min=0, help="Move to this offset.")
    ] = None,
    to_timestamp: Annotated[
        str | None,
        typer.Option(
            "--to-timestamp",
            metavar="TIME",
            help="Move to the first record at or after this time (ISO 8601 or milliseconds).",
        ),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(
            "--shift-by", metavar="N", help="Move forward by this many records, or backward if negative."
        ),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Commit the offsets. Without this option, only show the plan.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Move a group's committed offsets; the group must have no members.

    An offset outside a partition's log becomes the nearest one within it, with a warning.
    """
    targets = [to_earliest, to_latest, to_offset is not None, to_timestamp is not None, shift_by is not None]
    if sum(targets) != 1:
        fail(
            "give exactly one of --to-earliest, --to-latest, --to-offset, --to-timestamp and --shift-by",
            EXIT_USAGE,
        )
    timestamp_ms = None if to_timestamp is None else parse_timestamp_ms(to_timestamp)
    client = admin_client(bootstrap, command_config)
    committed = _committed(client, group, bootstrap, command_config)
    partitions = _chosen_partitions(client, topic or [], committed, bootstrap)
    if not partitions:
        fail(f"group {group!r} has no committed offsets: name the topics with --topic")
    earliest = list_offsets(client, partitions, OffsetSpec.earliest(), bootstrap)
    latest = list_offsets(client, partitions, OffsetSpec.latest(), bootstrap)
    if timestamp_ms is not None:
        wanted = list_offsets(client, partitions, OffsetSpec.for_timestamp(timestamp_ms), bootstrap)
        wanted = {key: latest[key] if offset < 0 else offset for key, offset in wanted.items()}
    elif shift_by is not None:
        wanted = {key: committed.get(key, earliest[key]) + shift_by for key in partitions}
    elif to_offset is not None:
        wanted = dict.fromkeys(partitions, to_offset)
    else:
        wanted = earliest if to_earliest else latest
    plan = {key: _within_log(key, wanted[key], earliest[key], latest[key]) for key in sorted(partitions)}
    if execute:
        _commit(client, group, plan, bootstrap, command_config)
    if json_output:
        print_json(
            {
                "group": group,
                "executed": execute,
                "offsets": [
                    {"topic": t, "partition": p, "from": committed.get((t, p)), "to": offset}
                    for (t, p), offset in plan.items()
                ],
            }
        )
        return
    print_table(
        ["TOPIC", "PARTITION", "FROM", "TO"],
        [(t, p, committed.get((t, p)), offset) for (t, p), offset in plan.items()],
    )
    if not execute:
        console().print("[dim]nothing was changed: add --execute[/]")


@app.command()
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="Group ids.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Delete groups and their committed offsets."""
    client = admin_client(bootstrap, command_config)
    with reported_errors(bootstrap):
        futures = client.delete_consumer_groups(groups, request_timeout=REQUEST_TIMEOUT_S)
    for name, future in futures.items():
        group_result(future, bootstrap, command_config, name)
        if not json_output:
            console().print(f"deleted {name}")
    if json_output:
        print_json([{"group": name, "deleted": True} for name in futures])


def _committed(
    client: AdminClient, group: str, bootstrap: str, command_config: CommandConfig
) -> dict[PartitionKey, int]:
    with reported_errors(bootstrap):
        futures = client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_TIMEOUT_S
        )
    answer = group_result(futures[group], bootstrap, command_config, group)
    return {(tp.topic, tp.partition): tp.offset for tp in answer.topic_partitions if tp.offset >= 0}


def _commit(
    client: AdminClient,
    group: str,
    plan: dict[PartitionKey, int],
    bootstrap: str,
    command_config: CommandConfig,
) -> None:
    partitions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in plan.items()]
    with reported_errors(bootstrap):
        futures = client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, partitions)], request_timeout=REQUEST_TIMEOUT_S
        )
    answer = group_result(futures[group], bootstrap, command_config, group)
    for tp in answer.topic_partitions:
        if tp.error is not None:
            explain(tp.error, bootstrap, f"{tp.topic}-{tp.partition}")


def _within_log(key: PartitionKey, wanted: int, earliest: int, latest: int) -> int:
    """The offset, or the nearest one within the log, with a warning in the words of Kafka's tool."""
    nearest = min(max(wanted, earliest), latest)
    if nearest != wanted:
        topic, partition = key
        beyond = "higher than latest" if wanted > latest else "lower than earliest"
        print_warning(
            f"New offset ({wanted}) is {beyond} offset for topic partition {topic}-{partition}. "
            f"Value will be set to {nearest}"
        )
    return nearest


def _lags(
    client: AdminClient,
    committed: dict[PartitionKey, int],
    owners: dict[PartitionKey, str],
    bootstrap: str,
) -> list[PartitionLag]:
    partitions = set(committed) | set(owners)
    ends = list_offsets(client, partitions, OffsetSpec.latest(), bootstrap) if partitions else {}
    return [
        PartitionLag(topic, partition, committed.get(key), ends.get(key), owners.get(key))
        for key in sorted(partitions)
        for topic, partition in [key]
    ]


def _chosen_partitions(
    client: AdminClient, topics: list[str], committed: dict[PartitionKey, int], bootstrap: str
) -> set[PartitionKey]:
    if not topics:
        return set(committed)
    with reported_errors(bootstrap):
        known = client.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    chosen: set[PartitionKey] = set()
    for wanted in topics:
        name, numbers = parse_partitions(wanted)
        if name not in known:
            fail(f"topic {name!r} does not exist{did_you_mean_topic(name, known)}")
        partitions = known[name].partitions.keys()
        for number in numbers or partitions:
            if number not in partitions:
                fail(f"topic {name!r} has no partition {number}: it has {len(partitions)}")
            chosen.add((name, number))
    return chosen
