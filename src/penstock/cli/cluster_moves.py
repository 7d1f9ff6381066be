"""Show plans and carry them out, with a progress bar."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from penstock.cli.connection import EXIT_INTERRUPTED, EXIT_REFUSED, fail
from penstock.cli.output import Json, console, print_json, print_note, print_table
from penstock.cli.rates import shown_bytes
from penstock.client.admin.brokers import describe_cluster
from penstock.client.admin.log_dirs import partition_bytes
from penstock.client.admin.replicas import PartitionReplicas, describe_topics, partitions_of
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.operations.moving import Moving, Progress, begin
from penstock.operations.placement import Assignment, CannotPlace, Racks
from penstock.operations.plan_file import write_plan

POLL_S = 0.5
LINE_S = 5.0
"""The time between progress lines if standard error is no terminal."""

REFRESHES_PER_S = 4

Throttle = Annotated[
    str | None,
    typer.Option(
        "--throttle", metavar="RATE", help="Limit each broker to this many bytes per second, such as 50MB."
    ),
]
NoWait = Annotated[
    bool,
    typer.Option(
        "--no-wait",
        help="Return once the moves have started; `penstock cluster reassign wait` waits for their end.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


def planned(make: Callable[[], Assignment]) -> Assignment:
    """Make a plan; end the command if none is possible."""
    try:
        return make()
    except CannotPlace as error:
        fail(str(error))


def assignment_of(partitions: dict[TopicPartition, PartitionReplicas]) -> Assignment:
    return {tp: partition.replicas for tp, partition in partitions.items()}


def all_partitions(cluster: Cluster) -> dict[TopicPartition, PartitionReplicas]:
    return partitions_of(describe_topics(cluster))


def usable_racks(cluster: Cluster, without: list[int]) -> Racks:
    """The brokers that may hold replicas, with their racks. Ends the command if a broker is down."""
    brokers = describe_cluster(cluster).brokers
    known = {broker.broker_id for broker in brokers}
    for broker_id in without:
        if broker_id not in known:
            fail(f"there is no broker {broker_id}: expected one of {', '.join(map(str, sorted(known)))}")
    down = [b.broker_id for b in brokers if b.is_fenced and b.broker_id not in without]
    if down:
        names = ", ".join(map(str, down))
        fail(f"broker {names} is down: start it, or move its replicas away with --without {down[0]}")
    return {b.broker_id: b.rack for b in brokers if b.broker_id not in without}


def show_plan(cluster: Cluster, current: Assignment, plan: Assignment) -> None:
    """Print each broker's replicas and leaders before and after, and the amount to copy."""
    if not plan:
        console().print("nothing to move")
        return
    after = {**current, **plan}
    brokers = sorted({broker for each in (current, after) for r in each.values() for broker in r})
    counts = [Counter(b for r in each.values() for b in r) for each in (current, after)]
    leaders = [Counter(r[0] for r in each.values()) for each in (current, after)]
    print_table(
        ["BROKER", "REPLICAS", "AFTER", "PREFERRED LEADER OF", "AFTER"],
        [(b, counts[0][b], counts[1][b], leaders[0][b], leaders[1][b]) for b in brokers],
    )
    copied = {tp: len(set(replicas) - set(current[tp])) for tp, replicas in plan.items()}
    sizes = partition_bytes(cluster, [tp for tp, count in copied.items() if count])
    total_bytes = sum(sizes.get(tp, 0) * count for tp, count in copied.items())
    console().print(
        f"{sum(copied.values())} replicas to copy ({shown_bytes(total_bytes)}), "
        f"{len(plan)} of {len(current)} partitions change"
    )


def carry_out(
    cluster: Cluster,
    current: Assignment,
    plan: Assignment,
    bytes_per_s: int | None,
    *,
    dry_run: bool,
    wait: bool,
    json_output: bool,
) -> None:
    """Show a plan and, unless it is a dry run, begin its moves; wait for their end if requested."""
    if not json_output:
        show_plan(cluster, current, plan)
    elif dry_run:
        typer.echo(write_plan(plan), nl=False)
    if dry_run:
        return
    if not plan:
        _report(plan, {}, done=json_output, json_output=json_output)
        return
    moving = Moving.of_plan(cluster, current, plan)
    begin(cluster, current, plan, bytes_per_s)
    if not wait:
        print_note(
            "begun; `penstock cluster reassign wait` shows the progress and removes throttles at the end"
        )
        _report(plan, {}, done=False, json_output=json_output)
        return
    see_through(cluster, moving, plan, json_output=json_output)


def see_through(cluster: Cluster, moving: Moving, plan: Assignment, *, json_output: bool) -> None:
    """Show the progress of moves until they are done, then remove limits and elect the preferred leaders."""
    try:
        with _shown() as show:
            moving.wait(show, lambda: time.sleep(POLL_S))
    except KeyboardInterrupt:
        print_note(
            "the moves continue without this command: `penstock cluster reassign wait` shows them, "
            "`penstock cluster reassign cancel` cancels them"
        )
        raise typer.Exit(EXIT_INTERRUPTED) from None
    failed = {str(tp): str(error) for tp, error in moving.finish().items() if error is not None}
    found = assignment_of(all_partitions(cluster))
    turned_back = [
        str(tp) for tp, replicas in plan.items() if tp in found and set(found[tp]) != set(replicas)
    ]
    _report(plan, failed, done=not turned_back, json_output=json_output)
    for message in failed.values():
        print_note(f"not led by its first replica: {message}")
    if turned_back:
        fail(f"cancelled by another client: {', '.join(turned_back)}", EXIT_REFUSED)


def _report(plan: Assignment, failed: dict[str, str], *, done: bool, json_output: bool) -> None:
    if json_output:
        partitions: list[Json] = [
            {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
            for tp, replicas in plan.items()
        ]
        print_json({"partitions": partitions, "done": done, "not_elected": failed})
    elif done:
        console().print(f"moved {len(plan)} partitions")


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """Show progress on standard error: as a bar on a terminal, else as a line every few seconds."""
    if not sys.stderr.isatty():
        yield _Lines().show
        return
    bar = Bar(
        TextColumn("moving"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        refresh_per_second=REFRESHES_PER_S,
    )
    with bar:
        task = bar.add_task("moving", total=None, text="")

        def show(progress: Progress) -> None:
            # Count partitions too: those without data also take time.
            bar.update(
                task,
                total=progress.bytes_total + progress.partitions,
                completed=progress.bytes_done + progress.partitions_done,
                text=_text(progress),
            )

        yield show


class _Lines:
    """Progress as lines of text."""

    def __init__(self) -> None:
        self._said_at = -LINE_S

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.is_done or now - self._said_at >= LINE_S:
            self._said_at = now
            print_note(f"moving: {_text(progress)}")


def _text(progress: Progress) -> str:
    return (
        f"{progress.partitions_done}/{progress.partitions} partitions, "
        f"{shown_bytes(progress.bytes_done)} of {shown_bytes(progress.bytes_total)}"
    )
