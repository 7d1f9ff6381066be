"""The output of `penstock cluster status`."""

from collections.abc import Iterator
from datetime import UTC, datetime

from penstock.cli.output import Json, console, print_table
from penstock.cli.partitions import is_internal
from penstock.client.admin.quorum import QuorumReplica, is_fixed
from penstock.client.connections.metadata import TopicPartition
from penstock.operations.health import BrokerLoad, Health
from penstock.protocol.uuids import uuid_to_text

LISTED = 20  # partitions shown of each kind; --json shows all


def show_status(found: Health) -> None:
    """Print the status as tables."""
    console().print(f"cluster {found.cluster_id}\n", markup=False)
    print_table(
        ["BROKER", "ADDRESS", "RACK", "STATE", "LEADS", "PREFERRED", "REPLICAS", "OUT OF SYNC"],
        [
            (b.broker_id, f"{b.host}:{b.port}", b.rack, _state(b.is_fenced), *_load(found, b.broker_id))
            for b in found.brokers
        ],
    )
    quorum = found.quorum
    print()
    print_table(
        ["QUORUM", "ROLE", "LOG END", "LAG", "CAUGHT UP"],
        [
            (node.node_id, role, _known(node.log_end_offset), quorum.lag(node), _caught_up(role, node))
            for role, node in _members(found)
        ],
    )
    kind = "a static quorum" if is_fixed(quorum) else "a dynamic quorum"
    console().print(f"epoch {quorum.leader_epoch}, committed to offset {quorum.high_watermark}, {kind}\n")
    console().print(
        f"{len(found.partitions)} partitions: {len(found.under_replicated)} under-replicated, "
        f"{len(found.under_min_isr)} under min.insync.replicas, {len(found.offline)} offline, "
        f"{len(found.moving)} moving"
    )
    for title, partitions in (
        ("OFFLINE", found.offline),
        ("UNDER MIN.INSYNC.REPLICAS", found.under_min_isr),
        ("UNDER-REPLICATED", found.under_replicated),
    ):
        if partitions:
            print()
            _show_partitions(found, title, partitions)


def _show_partitions(found: Health, title: str, partitions: list[TopicPartition]) -> None:
    users_first = sorted(partitions, key=lambda tp: is_internal(tp.topic))
    shown = [(str(tp), found.partitions[tp]) for tp in users_first[:LISTED]]
    print_table(
        [title, "LEADER", "REPLICAS", "IN SYNC"],
        [(name, None if p.is_offline else p.leader_id, _ids(p.replicas), _ids(p.isr)) for name, p in shown],
    )
    if len(partitions) > LISTED:
        console().print(f"… and {len(partitions) - LISTED} more; --json lists all")


def status_json(found: Health) -> Json:
    """The whole status as JSON."""
    quorum = found.quorum
    return {
        "cluster_id": found.cluster_id,
        "brokers": [
            {
                "broker_id": broker.broker_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "fenced": broker.is_fenced,
                "leaders": load.leaders,
                "preferred_leaders": load.preferred_leaders,
                "replicas": load.replicas,
                "out_of_sync": load.out_of_sync,
            }
            for broker in found.brokers
            for load in [found.loads[broker.broker_id]]
        ],
        "quorum": {
            "leader_id": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "fixed": is_fixed(quorum),
            "members": [
                {
                    "node_id": node.node_id,
                    "role": role,
                    "directory_id": uuid_to_text(node.directory_id),
                    "log_end_offset": node.log_end_offset,
                    "lag": quorum.lag(node),
                    "last_caught_up_timestamp_ms": node.last_caught_up_timestamp_ms,
                }
                for role, node in _members(found)
            ],
        },
        "partitions": len(found.partitions),
        "under_replicated": [str(tp) for tp in found.under_replicated],
        "under_min_isr": [str(tp) for tp in found.under_min_isr],
        "offline": [str(tp) for tp in found.offline],
        "moving": [str(tp) for tp in found.moving],
    }


def _members(found: Health) -> Iterator[tuple[str, QuorumReplica]]:
    for voter in found.quorum.voters:
        yield "leader" if voter.node_id == found.quorum.leader_id else "voter", voter
    for observer in found.quorum.observers:
        yield "observer", observer


def _load(found: Health, broker_id: int) -> tuple[int, int, int, int]:
    load = found.loads.get(broker_id, BrokerLoad())
    return load.leaders, load.preferred_leaders, load.replicas, load.out_of_sync


def _state(is_fenced: bool) -> str:
    return "fenced" if is_fenced else "active"


def _caught_up(role: str, node: QuorumReplica) -> str | None:
    if role == "leader" or node.last_caught_up_timestamp_ms < 0:
        return None
    moment = datetime.fromtimestamp(node.last_caught_up_timestamp_ms / 1000, UTC)
    return moment.strftime("%H:%M:%S UTC")


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
