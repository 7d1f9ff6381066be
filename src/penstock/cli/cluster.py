"""`penstock cluster`: show a cluster's health, and change its brokers, partitions and quorum."""

import time
from typing import Annotated, NamedTuple

import typer

from penstock.cli import cluster_reassign
from penstock.cli.cluster_moves import (
    DryRun,
    NoWait,
    Throttle,
    all_partitions,
    assignment_of,
    carry_out,
    planned,
    usable_racks,
)
from penstock.cli.cluster_status import show_status, status_json
from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_REFUSED,
    EXIT_USAGE,
    Bootstrap,
    CommandConfig,
    JsonOutput,
    fail,
)
from penstock.cli.open_cluster import cluster_of, open_cluster
from penstock.cli.output import console, print_json, print_note
from penstock.cli.partitions import parse_partitions
from penstock.cli.rates import parse_rate_bytes_per_s
from penstock.cli.timestamps import parse_duration_ms
from penstock.client.admin.brokers import describe_cluster, unregister_broker
from penstock.client.admin.elections import ElectionType, elect_leaders
from penstock.client.admin.quorum import (
    QuorumDescription,
    QuorumReplica,
    add_voter,
    describe_quorum,
    remove_voter,
)
from penstock.client.admin.replicas import describe_topics
from penstock.client.config import parse_servers
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError
from penstock.client.settings import ConfigError
from penstock.operations.health import Health, health
from penstock.operations.placement import Assignment, spread, with_factor

app = typer.Typer(help="Show a cluster's health, move partitions, change the quorum.", no_args_is_help=True)
app.add_typer(cluster_reassign.app, name="reassign")

WAIT_POLL_S = 0.25
DEFAULT_FACTOR = 3

NodeId = Annotated[int, typer.Argument(metavar="ID", help="The node.id of a controller.")]
BrokerId = Annotated[int, typer.Argument(metavar="ID", help="The node.id of a broker.")]


@app.command()
def status(
    wait: Annotated[
        str | None,
        typer.Option(
            "--wait",
            metavar="TIME",
            help="Wait until all is well, at most this long: 30s, 5m. Exit code 1 if the time runs out.",
        ),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers", metavar="N", min=1, help="With --wait: also wait for at least this many brokers."
        ),
    ] = None,
    voters: Annotated[
        int | None,
        typer.Option(
            "--voters", metavar="N", min=1, help="With --wait: also wait for at least this many voters."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Show the load of each broker, the quorum with its lag, and partitions that need attention.

    All is well when every registered broker is running, every partition has a leader and all its replicas in
    sync, and no partition is moving.
    """
    for option, number in (("--brokers", brokers), ("--voters", voters)):
        if number is not None and wait is None:
            fail(f"{option} needs --wait", EXIT_USAGE)
    wanted = _Wanted(brokers or 1, voters or 1)
    if wait is not None:
        deadline = time.monotonic() + parse_duration_ms(wait) / 1000
        _wait(bootstrap, command_config, wanted, deadline)
    with open_cluster(bootstrap, command_config) as cluster:
        found = health(cluster)
    if json_output:
        print_json(status_json(found))
    else:
        show_status(found)
    if wait is not None and not _is_well(found, wanted):
        raise typer.Exit(EXIT_REFUSED)


class _Wanted(NamedTuple):
    """The least numbers of brokers and voters."""

    brokers: int
    voters: int


def _wait(bootstrap: str, command_config: CommandConfig, wanted: _Wanted, deadline: float) -> None:
    """Wait until all is well or the time is up; nodes that are still starting can't be reached."""
    while time.monotonic() < deadline:
        try:
            with cluster_of(bootstrap, command_config) as cluster:
                while time.monotonic() < deadline:
                    if _is_well(health(cluster), wanted):
                        return
                    time.sleep(WAIT_POLL_S)
        except ClientError as error:
            if not error.retriable:
                return  # the command reports it
            time.sleep(WAIT_POLL_S)


def _is_well(found: Health, wanted: _Wanted) -> bool:
    all_there = not any(broker.is_fenced for broker in found.brokers) and len(found.brokers) >= wanted.brokers
    return found.is_whole and all_there and len(found.quorum.voters) >= wanted.voters


@app.command("add-voter")
def add_voter_command(
    node: Annotated[
        str,
        typer.Argument(
            metavar="ID@HOST:PORT", help="The node.id of a controller and the address of its listener."
        ),
    ],
    listener: Annotated[
        str, typer.Option("--listener", metavar="NAME", help="The name of the controller's listener.")
    ] = "CONTROLLER",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Make a controller that already follows the quorum a voter (KIP-853).

    It has to run, and to appear as an observer in `penstock cluster status`.
    """
    text, _, address = node.partition("@")
    try:
        if not text.isdigit():
            raise ConfigError(f"{text!r} is no node.id")
        [server] = parse_servers(address)
    except (ConfigError, ValueError):
        fail(f"expected ID@HOST:PORT, found {node!r}", EXIT_USAGE)
    node_id = int(text)
    with open_cluster(bootstrap, command_config) as cluster:
        quorum = describe_quorum(cluster)
        observer = _newest(quorum.observers, node_id)
        if observer is None:
            fail(f"node {node_id} does not follow the quorum: {_members(quorum)}")
        add_voter(cluster, node_id, observer.directory_id, listener, server)
    if json_output:
        print_json({"node_id": node_id, "added": True})
    else:
        console().print(f"node {node_id} is a voter")


@app.command("remove-voter")
def remove_voter_command(
    node_id: NodeId,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Remove a controller from the quorum's voters (KIP-853).

    It may continue as an observer, or be stopped.
    """
    with open_cluster(bootstrap, command_config) as cluster:
        quorum = describe_quorum(cluster)
        voter = _newest(quorum.voters, node_id)
        if voter is None:
            fail(f"node {node_id} is no voter: {_members(quorum)}")
        remove_voter(cluster, node_id, voter.directory_id)
    if json_output:
        print_json({"node_id": node_id, "removed": True})
    else:
        console().print(f"node {node_id} is no longer a voter")


def _newest(replicas: list[QuorumReplica], node_id: int) -> QuorumReplica | None:
    """The node's latest replica: after a disk loss the quorum lists its old and new directory for a while."""
    of_node = [replica for replica in replicas if replica.node_id == node_id]
    return max(of_node, key=lambda replica: replica.last_fetch_timestamp_ms, default=None)


def _members(quorum: QuorumDescription) -> str:
    voters = ", ".join(str(v.node_id) for v in quorum.voters)
    observers = ", ".join(str(o.node_id) for o in quorum.observers) or "none"
    return f"voters are {voters}, observers {observers}"


@app.command()
def unregister(
    broker_id: BrokerId,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Remove the registration of a stopped broker that will not return.

    Refused while it runs, and while it holds replicas: move them first, with
    `penstock cluster rebalance --without ID`.
    """
    with open_cluster(bootstrap, command_config) as cluster:
        if any(b.broker_id == broker_id and not b.is_fenced for b in describe_cluster(cluster).brokers):
            fail(f"broker {broker_id} is running: stop it first")
        held = [tp for tp, p in all_partitions(cluster).items() if broker_id in p.replicas]
        if held:
            fail(
                f"broker {broker_id} holds {len(held)} replicas, {held[0]} among them: "
                f"`penstock cluster rebalance --without {broker_id}` moves them"
            )
        unregister_broker(cluster, broker_id)
    if json_output:
        print_json({"broker_id": broker_id, "unregistered": True})
    else:
        console().print(f"broker {broker_id} is unregistered")


@app.command("elect-leaders")
def elect_leaders_command(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,P]",
            help="A topic or some of its partitions; repeatable. Default: all.",
        ),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="If no in-sync replica is available, elect one that is not in sync. Records that it "
            "lacks are lost. Needs --topic.",
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Elect the first replica of each partition as its leader, if it is in sync and does not lead already."""
    if unclean and not topic:
        fail("--unclean needs --topic: name the topics that may lose records", EXIT_USAGE)
    with open_cluster(bootstrap, command_config) as cluster:
        wanted = dict(map(parse_partitions, topic or []))
        chosen = [
            TopicPartition(name, number)
            for name, found in (describe_topics(cluster, wanted) if topic else {}).items()
            for number in wanted[name] or found.partitions
        ]
        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        results = elect_leaders(cluster, kind, chosen if topic else None)
    failed = {tp: error for tp, error in results.items() if error is not None}
    if json_output:
        print_json(
            {
                "elected": [str(tp) for tp in results if tp not in failed],
                "failed": {str(tp): str(error) for tp, error in failed.items()},
            }
        )
    else:
        console().print(f"elected leaders of {len(results) - len(failed)} partitions")
        for error in failed.values():
            print_note(str(error))
    if failed:
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def rebalance(
    without: Annotated[
        list[int] | None,
        typer.Option("--without", metavar="ID", help="Move all replicas off this broker; repeatable."),
    ] = None,
    throttle: Throttle = None,
    no_wait: NoWait = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Spread replicas and leaders evenly over all brokers: after some were added, or before one is removed.

    As few replicas as possible are copied. Replicas of a partition are placed in different racks, as far as
    there are any. With --dry-run and --json the plan is printed in the form that
    `penstock cluster reassign run` takes.
    """
    rate = None if throttle is None else parse_rate_bytes_per_s(throttle)
    with open_cluster(bootstrap, command_config) as cluster:
        racks = usable_racks(cluster, without or [])
        current = assignment_of(all_partitions(cluster))
        plan = planned(lambda: spread(current, racks))
        carry_out(cluster, current, plan, rate, dry_run=dry_run, wait=not no_wait, json_output=json_output)


@app.command("raise-replication")
def raise_replication(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]…", help="Topics. Default: all internal topics.")
    ] = None,
    factor: Annotated[
        int,
        typer.Option("--factor", "-r", metavar="N", min=1, help="The number of replicas of each partition."),
    ] = DEFAULT_FACTOR,
    throttle: Throttle = None,
    no_wait: NoWait = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Give topics more replicas. The default is the internal topics, for a cluster that began as one node.

    Existing replicas stay where they are; partitions with as many replicas or more do not change.
    """
    rate = None if throttle is None else parse_rate_bytes_per_s(throttle)
    with open_cluster(bootstrap, command_config) as cluster:
        current = assignment_of(all_partitions(cluster))
        described = describe_topics(cluster, topics or None)
        chosen = [
            TopicPartition(name, number)
            for name, topic in described.items()
            if topics or topic.is_internal
            for number in topic.partitions
        ]
        racks = usable_racks(cluster, [])
        plan: Assignment = planned(lambda: with_factor(current, chosen, factor, racks))
        if not plan:
            print_note(f"{len(chosen)} partitions have {factor} replicas or more already")
        carry_out(cluster, current, plan, rate, dry_run=dry_run, wait=not no_wait, json_output=json_output)
