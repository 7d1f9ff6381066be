"""`penstock cluster reassign`: move partitions by a plan."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.cluster_moves import (
    DryRun,
    NoWait,
    Throttle,
    all_partitions,
    assignment_of,
    carry_out,
    planned,
    see_through,
    usable_racks,
)
from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    Bootstrap,
    CommandConfig,
    JsonOutput,
    fail,
)
from penstock.cli.open_cluster import open_cluster
from penstock.cli.output import Json, console, print_json, print_note, print_table
from penstock.cli.partitions import parse_partitions
from penstock.cli.rates import parse_rate_bytes_per_s, shown_bytes
from penstock.cli.similar_names import did_you_mean_topic
from penstock.client.admin.reassignments import list_reassignments
from penstock.client.admin.replicas import PartitionReplicas
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.operations.moving import Moving, cancel
from penstock.operations.placement import Assignment, Racks, spread, with_factor
from penstock.operations.plan_file import BadPlan, read_plan, write_plan

app = typer.Typer(help="Move partitions to other brokers according to a plan.", no_args_is_help=True)

Chosen = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC[:P,P]]…", help="Topics, or some of their partitions.")
]


@app.command("plan")
def make_plan(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC[:P,P]…", help="Topics, or some of their partitions.")
    ],
    brokers: Annotated[
        str | None,
        typer.Option(
            "--brokers", metavar="ID,ID,…", help="The brokers that may hold replicas. Default: all brokers."
        ),
    ] = None,
    factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            metavar="N",
            min=1,
            help="Raise the replication factor to this number.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the plan to this file. Default: standard output."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Plan where replicas of topics should be placed, with as few moves as possible. Nothing is changed.

    The plan is JSON, the same that kafka-reassign-partitions takes. Replicas are spread evenly over the
    brokers and, as far as there are any, racks.
    """
    with open_cluster(bootstrap, command_config) as cluster:
        found = all_partitions(cluster)
        chosen = _chosen(found, topics)
        current = {tp: found[tp].replicas for tp in chosen}
        racks = usable_racks(cluster, [])
        if brokers is not None:
            ids = _broker_ids(brokers)
            if unknown := sorted(set(ids) - racks.keys()):
                fail(f"there is no broker {unknown[0]}: expected one of {', '.join(map(str, sorted(racks)))}")
            racks = {broker: racks[broker] for broker in ids}
        plan = planned(lambda: _plan(assignment_of(found), current, factor, racks))
    if not plan:
        print_note("nothing to move")
    text = write_plan(plan)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text)


def _plan(all_replicas: Assignment, chosen: Assignment, factor: int | None, racks: Racks) -> Assignment:
    raised = with_factor(all_replicas, chosen.keys(), factor, racks) if factor is not None else {}
    spread_out = spread({**chosen, **raised}, racks)
    after = {**chosen, **raised, **spread_out}
    return {tp: replicas for tp, replicas in after.items() if replicas != chosen[tp]}


@app.command()
def run(
    plan_file: Annotated[
        Path, typer.Argument(metavar="PLAN", help="A plan that `plan` or Kafka's tool wrote.")
    ],
    throttle: Throttle = None,
    no_wait: NoWait = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Move partitions according to a plan, and wait until the moves are complete.

    At the end throttles are removed, and the first replica of each partition is elected as its leader.
    """
    rate = None if throttle is None else parse_rate_bytes_per_s(throttle)
    try:
        wanted = read_plan(plan_file.read_text())
    except OSError as error:
        fail(f"cannot read {plan_file}: {error.strerror}", EXIT_USAGE)
    except (BadPlan, UnicodeDecodeError) as error:
        fail(f"{plan_file}: {error}", EXIT_USAGE)
    with open_cluster(bootstrap, command_config) as cluster:
        current = assignment_of(all_partitions(cluster))
        for tp in wanted:
            if tp not in current:
                fail(f"{plan_file}: there is no partition {tp}")
        plan = {tp: replicas for tp, replicas in sorted(wanted.items()) if replicas != current[tp]}
        carry_out(cluster, current, plan, rate, dry_run=dry_run, wait=not no_wait, json_output=json_output)


@app.command()
def status(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Show the moves in progress."""
    with open_cluster(bootstrap, command_config) as cluster:
        ongoing = list_reassignments(cluster)
        progress = Moving.under_way(cluster).progress()
    if json_output:
        moving: list[Json] = [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "replicas": list(one.replicas),
                "adding": list(one.adding),
                "removing": list(one.removing),
            }
            for tp, one in ongoing.items()
        ]
        print_json({"moving": moving, "bytes_done": progress.bytes_done, "bytes_total": progress.bytes_total})
        return
    if not ongoing:
        console().print("nothing is moving")
        return
    print_table(
        ["PARTITION", "REPLICAS", "ADDING", "REMOVING"],
        [(str(tp), _ids(one.replicas), _ids(one.adding), _ids(one.removing)) for tp, one in ongoing.items()],
    )
    console().print(f"{shown_bytes(progress.bytes_done)} of {shown_bytes(progress.bytes_total)} copied")


@app.command()
def wait(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Wait until all moves are complete, then remove throttles.

    This also removes a throttle that an interrupted command left behind.
    """
    with open_cluster(bootstrap, command_config) as cluster:
        ongoing = list_reassignments(cluster)
        arriving: Assignment = {
            tp: tuple(replica for replica in one.replicas if replica not in one.removing)
            for tp, one in ongoing.items()
        }
        moving = Moving.under_way(cluster, also=_topics(cluster))
        if not ongoing and not json_output:
            moving.finish()
            console().print("nothing is moving")
            return
        see_through(cluster, moving, arriving, json_output=json_output)


@app.command("cancel")
def cancel_moves(
    topics: Chosen = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Cancel all moves, or those of these partitions. Replicas stay where they were before."""
    with open_cluster(bootstrap, command_config) as cluster:
        chosen = _chosen(all_partitions(cluster), topics) if topics else None
        cancelled = cancel(cluster, chosen)
    if json_output:
        print_json([{"topic": tp.topic, "partition": tp.partition} for tp in cancelled])
    else:
        console().print(f"cancelled the moves of {len(cancelled)} partitions")


def _chosen(found: dict[TopicPartition, PartitionReplicas], topics: list[str]) -> list[TopicPartition]:
    """The named partitions; ends the command if one does not exist."""
    chosen: list[TopicPartition] = []
    for text in topics:
        name, numbers = parse_partitions(text)
        of_topic = [tp for tp in found if tp.topic == name]
        if not of_topic:
            fail(f"there is no topic {name!r}{did_you_mean_topic(name, {tp.topic for tp in found})}")
        wanted = [TopicPartition(name, number) for number in numbers] or of_topic
        if missing := [tp for tp in wanted if tp not in found]:
            fail(f"there is no partition {missing[0]}: topic {name!r} has {len(of_topic)}")
        chosen += wanted
    return sorted(set(chosen))


def _topics(cluster: Cluster) -> set[str]:
    return {tp.topic for tp in all_partitions(cluster)}


def _broker_ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in parts):
        fail(f"--brokers: expected ids such as 1,2,3, found {text!r}", EXIT_USAGE)
    return sorted({int(part) for part in parts})


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
