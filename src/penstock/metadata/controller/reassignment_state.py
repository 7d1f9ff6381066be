"""The steps of a partition's reassignment (KIP-455).

During a reassignment the replicas are the wanted ones, in their order, followed by those to be removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.metadata.image import PartitionRegistration


class Reassignment(NamedTuple):
    """The replicas of a partition during a reassignment."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


class Completed(NamedTuple):
    replicas: list[int]
    isr: list[int]


class Reverted(NamedTuple):
    """The partition after a cancelled reassignment; ``unclean`` if no remaining replica is in sync."""

    replicas: list[int]
    isr: list[int]
    unclean: bool


def begin_reassignment(current: Sequence[int], wanted: Sequence[int]) -> Reassignment:
    """Begin a move from ``current`` replicas, perhaps those of an unfinished move, to ``wanted`` ones."""
    removing = sorted(set(current) - set(wanted))
    adding = sorted(set(wanted) - set(current))
    return Reassignment([*wanted, *removing], adding, removing)


def completed_reassignment(
    replicas: Sequence[int], adding: Sequence[int], removing: Sequence[int], isr: Sequence[int]
) -> Completed | None:
    """The partition after its reassignment; None if that cannot complete yet.

    It completes once all new replicas are in sync, and at least one of those that stay. If the number of
    replicas falls, all that stay must be in sync, so that the partition does not end with fewer in sync than
    before.
    """
    if not adding and not removing:
        return None
    remaining = [replica for replica in replicas if replica not in removing]
    remaining_isr = [replica for replica in isr if replica not in removing]
    if removing and (not remaining_isr or not remaining):
        return None
    if not set(adding) <= set(remaining_isr):
        return None
    if len(adding) < len(removing) and not set(remaining) <= set(remaining_isr):
        return None
    return Completed(remaining, remaining_isr)


def reverted_reassignment(partition: PartitionRegistration) -> Reverted:
    """The partition without the replicas being added, and with those being removed."""
    adding = partition.adding_replicas
    replicas = [replica for replica in partition.replicas if replica not in adding]
    isr = [replica for replica in partition.isr if replica not in adding]
    if isr or not replicas:
        return Reverted(replicas, isr, unclean=False)
    return Reverted(replicas, [replicas[0]], unclean=True)
