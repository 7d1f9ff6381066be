"""Where the replicas of new partitions go: chosen by the controller, or by the request."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.metadata.controller.state import ControllerState, Refusal
from penstock.metadata.image import UNASSIGNED_DIRECTORY, PartitionRegistration
from penstock.protocol.errors import ErrorCode


def place(
    state: ControllerState, first_partition: int, count: int, replication_factor: int
) -> list[list[int]]:
    """Replicas for ``count`` partitions, leader first: leaders go round the brokers, so do followers."""
    brokers = [broker.broker_id for broker in state.image.cluster.unfenced_brokers()]
    if replication_factor > len(brokers):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor "
            f"of {replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered "
            "or some brokers have all their log directories cordoned.",
        )
    partitions = range(first_partition, first_partition + count)
    return [
        [brokers[(partition + replica) % len(brokers)] for replica in range(replication_factor)]
        for partition in partitions
    ]


def check_manual_placement(state: ControllerState, replicas: Sequence[int], expected: int | None) -> None:
    """Refusal unless a request's replicas are registered brokers, once each, and ``expected`` in number."""
    if not replicas:
        raise _invalid_assignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in state.image.brokers:
            raise _invalid_assignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if broker == previous:
            raise _invalid_assignment(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
        previous = broker
    if expected is not None and len(replicas) != expected:
        raise _invalid_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this "
            f"is not consistent with previous partitions, which have {expected} replica(s)."
        )


def new_partition(
    state: ControllerState, partition_id: int, replicas: Sequence[int]
) -> PartitionRegistration:
    """A partition as it begins: every live replica in sync, the first of them the leader."""
    brokers = state.image.brokers
    isr = tuple(r for r in replicas if not brokers[r].fenced and not brokers[r].in_controlled_shutdown)
    if not isr:
        raise _invalid_assignment(
            "All brokers specified in the manual partition assignment for partition "
            f"{partition_id} are fenced or in controlled shutdown."
        )
    return PartitionRegistration(
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(_default_directory(state, replica) for replica in replicas),
    )


def _default_directory(state: ControllerState, broker_id: int) -> bytes:
    """KIP-858: the only directory of a broker, or none where the broker has to choose."""
    directories = state.image.brokers[broker_id].log_dirs
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def _invalid_assignment(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
