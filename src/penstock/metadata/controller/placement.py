"""The placement of replicas of new partitions, which the controller or the request chooses.

The controller places replicas like Kafka's StripedReplicaPlacer. Its goals are, in this order: the replicas
of a partition are in different racks; leaders and followers are spread evenly over brokers; unfenced brokers
precede fenced ones. It cycles through the racks, and through the brokers of each rack, starting one step
later for every partition; the first start is random. Once each broker has led once, racks and brokers are
shuffled, so that the same sets of brokers do not repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from penstock.metadata.controller.state import ControllerState, Refusal
from penstock.metadata.image import BrokerRegistration, PartitionRegistration
from penstock.protocol.errors import ErrorCode


class _BrokerRing:
    """The brokers of one rack, each of which is taken at most once per epoch, that is per partition."""

    def __init__(self, brokers: Iterable[int], random: Random) -> None:
        self._brokers = sorted(brokers)
        self._start = random.randrange(len(self._brokers)) if self._brokers else 0
        self._taken = 0
        self._epoch = 0

    def shuffle(self, random: Random) -> None:
        random.shuffle(self._brokers)

    def next(self, epoch: int) -> int | None:
        """Take the next broker; None once all have been taken in this epoch."""
        if not self._brokers:
            return None
        if epoch != self._epoch:
            self._epoch, self._taken = epoch, 0
            self._start = (self._start + 1) % len(self._brokers)
        if self._taken == len(self._brokers):
            return None
        broker = self._brokers[(self._start + self._taken) % len(self._brokers)]
        self._taken += 1
        return broker


class _Rack:
    def __init__(self, brokers: Sequence[BrokerRegistration], random: Random) -> None:
        self._fenced = _BrokerRing((b.broker_id for b in brokers if b.fenced), random)
        self._unfenced = _BrokerRing((b.broker_id for b in brokers if not b.fenced), random)

    def shuffle(self, random: Random) -> None:
        self._fenced.shuffle(random)
        self._unfenced.shuffle(random)

    def next_unfenced(self, epoch: int) -> int | None:
        return self._unfenced.next(epoch)

    def next(self, epoch: int) -> int | None:
        broker = self._unfenced.next(epoch)
        return self._fenced.next(epoch) if broker is None else broker


class _Racks:
    """All racks, starting with another one for each partition; at least one rack has an unfenced broker."""

    def __init__(self, brokers: Sequence[BrokerRegistration], random: Random) -> None:
        names = sorted({broker.rack for broker in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._racks = [_Rack([b for b in brokers if b.rack == name], random) for name in names]
        self._order = list(range(len(self._racks)))
        self._random = random
        self._start = random.randrange(len(names))
        self._epoch = 0
        self._unfenced_count = sum(not broker.fenced for broker in brokers)

    def place(self, replication_factor: int) -> list[int]:
        """Place the next partition, an unfenced broker first; there must be enough brokers for the factor."""
        if self._epoch == self._unfenced_count > 1:
            self._shuffle()
        leader_rack, leader = self._leader()
        replicas = [leader]
        at = self._start
        skipped_leader_rack = False
        while len(replicas) < replication_factor:
            if at == leader_rack and not skipped_leader_rack:
                skipped_leader_rack = True  # this rack has already given the leader in this round
            else:
                broker = self._racks[self._order[at]].next(self._epoch)
                if broker is not None:
                    replicas.append(broker)
            at = (at + 1) % len(self._order)
        self._epoch += 1
        self._start = (self._start + 1) % len(self._order)
        return replicas

    def _leader(self) -> tuple[int, int]:
        """Take an unfenced broker from the first rack that has one left; return the rack's position, too."""
        for step in range(len(self._order)):
            at = (self._start + step) % len(self._order)
            broker = self._racks[self._order[at]].next_unfenced(self._epoch)
            if broker is not None:
                return at, broker
        raise AssertionError("a partition is placed only where there is an unfenced broker")

    def _shuffle(self) -> None:
        self._random.shuffle(self._order)
        for rack in self._racks:
            rack.shuffle(self._random)
        self._epoch = 0


def place(state: ControllerState, count: int, replication_factor: int) -> list[list[int]]:
    """Place ``count`` new partitions, leaders first. Raises Refusal if there are too few brokers.

    Brokers that are shutting down or have cordoned all their directories (KIP-1066) get no replicas.
    """
    heartbeats = state.heartbeats
    usable = [
        broker
        for _, broker in sorted(state.image.brokers.items())
        if not heartbeats.is_shutting_down(broker.broker_id) and broker.has_uncordoned_directory
    ]
    if all(broker.fenced for broker in usable):
        raise _cannot_replicate(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    if replication_factor > len(usable):
        raise _cannot_replicate(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    racks = _Racks(usable, state.random)
    return [racks.place(replication_factor) for _ in range(count)]


def _cannot_replicate(why: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, why)


def check_manual_placement(state: ControllerState, replicas: Sequence[int], expected: int | None) -> None:
    """Check that a request's replicas are distinct registered brokers, and ``expected`` in number."""
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


def manual_partition(
    state: ControllerState, partition_id: int, replicas: Sequence[int], expected: int | None
) -> PartitionRegistration:
    """Create a partition on brokers that a request names.

    Raises Refusal if the placement is invalid (`check_manual_placement`), or if none of the brokers is
    active.
    """
    check_manual_placement(state, replicas, expected)
    isr = _active(state, replicas)
    if not isr:
        raise _invalid_assignment(
            "All brokers specified in the manual partition assignment for partition "
            f"{partition_id} are fenced or in controlled shutdown."
        )
    return _new_partition(state, replicas, isr)


def placed_partition(state: ControllerState, replicas: Sequence[int]) -> PartitionRegistration:
    """Create a partition on brokers that `place` chose. Raises Refusal if none of them is active any more."""
    isr = _active(state, replicas)
    if not isr:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {len(replicas)} time(s): All brokers are currently fenced or "
            "in controlled shutdown.",
        )
    return _new_partition(state, replicas, isr)


def _active(state: ControllerState, replicas: Sequence[int]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if state.image.cluster.is_active(replica))


def _new_partition(
    state: ControllerState, replicas: Sequence[int], isr: tuple[int, ...]
) -> PartitionRegistration:
    """Create a partition in which all active replicas are in sync, and the first of them leads."""
    return PartitionRegistration(
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(state.default_directory(replica) for replica in replicas),
    )


def _invalid_assignment(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
