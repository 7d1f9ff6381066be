"""Where a partition's reassignment stands (KIP-455).

While it goes on, the replicas are those wanted, in their order, and after them those to be removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.metadata.image import PartitionRegistration


class Reassignment(NamedTuple):
    """A partition's replicas as they are during a reassignment."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


class Completed(NamedTuple):
    replicas: list[int]
    isr: list[int]


class Reverted(NamedTuple):
    """A reassignment taken back. ``unclean`` if no replica that stays is in sync."""

    replicas: list[int]
    isr: list[int]
    unclean: bool


def begin_reassignment(current: Sequence[int], wanted: Sequence[int]) -> Reassignment:
    """From ``current`` replicas, which may be those of an earlier reassignment, to ``wanted`` ones."""
    removing = sorted(set(current) - set(wanted))
    adding = sorted(set(wanted) - set(current))
    return Reassignment([*wanted, *removing], adding, removing)


def completed_reassignment(
    replicas: Sequence[int], adding: Sequence[int], removing: Sequence[int], isr: Sequence[int]
) -> Completed | None:
    """What is left when a reassignment is done; None while it can't be.

    It is done once all new replicas are in sync, and at least one that stays is. Where replicas become fewer,
    all that stay must be in sync, or the partition would come out with fewer in sync than it went in.
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
    """The partition without the replicas that were being added, and with those that were being removed."""
    adding = partition.adding_replicas
    replicas = [replica for replica in partition.replicas if replica not in adding]
    isr = [replica for replica in partition.isr if replica not in adding]
    if isr or not replicas:
        return Reverted(replicas, isr, unclean=False)
    return Reverted(replicas, [replicas[0]], unclean=True)
