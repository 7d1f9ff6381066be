"""One change to one partition: in-sync replicas, eligible leaders, leader, replicas, directories.

This is Kafka's PartitionChangeBuilder. The caller states what it wants to change in a partition. This module
derives the consequences, always in the same order: a reassignment completes, replicas that leave the ISR
become eligible leaders (KIP-966), a leader is elected, and epochs rise.

**Which replica may lead.** First choice is an active member of the ISR: the current leader, and then the
first in the order of the replicas (an election of the preferred leader begins with the first replica). If the
ISR is empty, an eligible leader replica may lead: it has every committed record, because records were
committed only while the ISR had at least `min.insync.replicas` members. Without those, the last known leader
may lead once it is back; and if the topic allows it, any replica. The last two elections are unclean: records
may be lost, and the new leader is marked as recovering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from penstock.metadata.controller.features import DIRECTORY_ASSIGNMENT_LEVEL, NO_EPOCH_FOR_ISR_SHRINK_LEVEL
from penstock.metadata.controller.reassignment_state import completed_reassignment
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.image import LEADER_UNCHANGED, NO_LEADER, PartitionRegistration, TopicImage
from penstock.protocol.messages import PartitionChangeRecord

RECOVERED: Final = 0
RECOVERING: Final = 1
"""The leader was elected uncleanly, and has not recovered its log yet (KIP-704)."""


class Election(Enum):
    PREFERRED = auto()
    """Elects the first replica if it is in the ISR, or else any other member of the ISR."""
    ONLINE = auto()
    """Elects a member of the ISR, preferably the current leader."""
    UNCLEAN = auto()
    """Also elects a replica that may lack records, rather than leave the partition without a leader."""


class _Elected(NamedTuple):
    leader: int
    unclean: bool


@dataclass(slots=True)
class PartitionChange:
    """The wanted state of a partition, initially its current state; `record` returns the change to write.

    Create it with `change_of`, and set the fields that should differ.
    """

    state: ControllerState
    topic_id: bytes
    partition_id: int
    partition: PartitionRegistration
    may_lead: Callable[[int], bool]
    min_isr: int
    election: Election = Election.ONLINE
    isr: list[int] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    adding: list[int] = field(default_factory=list)
    leader_recovery_state: int = RECOVERED
    directories: dict[int, bytes] = field(default_factory=dict)
    uncleanly_stopped: Sequence[int] = ()
    """Brokers that may have lost committed records from their logs, and so cannot be eligible leaders."""
    _elr: list[int] = field(default_factory=list)

    def record(self) -> PartitionChangeRecord | None:
        """Return the change with all of its consequences; None if nothing changes."""
        record = PartitionChangeRecord(topic_id=self.topic_id, partition_id=self.partition_id)
        self._complete_reassignment()
        self._keep_eligible_leaders()
        self._elect(record)
        self._begin_epoch_without_replicas(record)
        self._set_eligible_leaders(record)
        self._set_isr(record)
        self._begin_epoch_for_shrunk_isr(record)
        self._set_last_known_leader(record)
        self._set_assignment(record)
        if self.leader_recovery_state != self.partition.leader_recovery_state:
            record.leader_recovery_state = self.leader_recovery_state
        return None if _is_empty(record) else record

    def _complete_reassignment(self) -> None:
        completed = completed_reassignment(self.replicas, self.adding, self.removing, self.isr)
        if completed is not None:
            self.replicas, self.isr = completed
            self.removing, self.adding = [], []

    def _keep_eligible_leaders(self) -> None:
        """Keep replicas that leave an ISR below the minimum: no more is committed, so they have all of it."""
        if not self.state.elr_enabled:
            return
        if len(self.isr) >= self.min_isr:
            self._elr = []
            return
        candidates = {*self._elr, *self.partition.isr}
        self._elr = sorted(candidates - set(self.isr) - set(self.uncleanly_stopped))

    # Elections

    def _elect(self, record: PartitionChangeRecord) -> None:
        elected = self._elected()
        if elected.leader == self.partition.leader:
            return
        if elected.leader in self._elr:
            self.isr = [elected.leader]
            self._elr = [replica for replica in self._elr if replica != elected.leader]
        record.leader = elected.leader
        if elected.unclean:
            record.isr = [elected.leader]
            if self.partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    def _elected(self) -> _Elected:
        candidates = [self.partition.leader, *self.replicas]
        if self.election is Election.PREFERRED:
            candidates = [self.replicas[0], *candidates]
        for replica in candidates:
            if self._may_lead_cleanly(replica):
                return _Elected(replica, unclean=False)
        if self._last_known_leader_is_back():
            return _Elected(self.partition.last_known_elr[0], unclean=True)
        if self.election is Election.UNCLEAN:
            for replica in self.replicas:
                if self.may_lead(replica):
                    return _Elected(replica, unclean=True)
        return _Elected(NO_LEADER, unclean=False)

    def _may_lead_cleanly(self, replica: int) -> bool:
        eligible = replica in self.isr or (not self.isr and replica in self._elr)
        return eligible and self.may_lead(replica)

    def _last_known_leader_is_back(self) -> bool:
        """Whether the last known leader may lead, as the best choice without ISR and eligible leaders."""
        last_known = self.partition.last_known_elr
        return (
            self.state.elr_enabled
            and not self._elr
            and not self.isr
            and len(last_known) == 1
            and self.may_lead(last_known[0])
        )

    # Epochs

    def _begin_epoch_without_replicas(self, record: PartitionChangeRecord) -> None:
        """Start a new epoch if replicas are removed, so that they cannot commit or fetch in it."""
        if record.leader == LEADER_UNCHANGED and not set(self.partition.replicas) <= set(self.replicas):
            record.leader = self.partition.leader

    def _begin_epoch_for_shrunk_isr(self, record: PartitionChangeRecord) -> None:
        if self.state.image.metadata_version >= NO_EPOCH_FOR_ISR_SHRINK_LEVEL:
            return
        if record.leader != LEADER_UNCHANGED or record.isr is None:
            return
        if not set(self.partition.isr) <= set(record.isr):
            record.leader = self.partition.leader

    # The parts of the record

    def _set_eligible_leaders(self, record: PartitionChangeRecord) -> None:
        """Set the eligible leaders; an unclean election invalidates them all."""
        if record.isr is not None or not self.state.elr_enabled:
            self._elr = []
        if self._elr != list(self.partition.elr):
            record.eligible_leader_replicas = list(self._elr)

    def _set_isr(self, record: PartitionChangeRecord) -> None:
        """Set the ISR; without eligible leaders its last member stays in it, active or not."""
        if record.isr is not None or self.isr == list(self.partition.isr):
            return
        if self.isr or self.state.elr_enabled:
            record.isr = list(self.isr)

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        if not self.state.elr_enabled:
            return
        if record.leader == NO_LEADER and not self.partition.last_known_elr:
            record.last_known_elr = [self.partition.leader]
        elif record.leader >= 0 and self.partition.last_known_elr:
            record.last_known_elr = []

    def _set_assignment(self, record: PartitionChangeRecord) -> None:
        if self.replicas:
            if self.state.image.metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL:
                directories = [
                    self.directories.get(replica) or self.state.default_directory(replica)
                    for replica in self.replicas
                ]
                if directories != list(self.partition.directories):
                    record.directories = directories
            if self.replicas != list(self.partition.replicas):
                record.replicas = list(self.replicas)
        if self.removing != list(self.partition.removing_replicas):
            record.removing_replicas = list(self.removing)
        if self.adding != list(self.partition.adding_replicas):
            record.adding_replicas = list(self.adding)


def change_of(
    state: ControllerState,
    topic: TopicImage,
    partition_id: int,
    is_active: Callable[[int], bool] | None = None,
    min_isr: int | None = None,
) -> PartitionChange:
    """Create a change of one partition that changes nothing yet.

    ``is_active`` tells which brokers may lead, if the image does not apply. A broker whose replica is in a
    lost directory never may. ``min_isr`` is the topic's value, for callers that already know it.
    """
    partition = topic.partitions[partition_id]
    image = state.image
    is_active = is_active or image.cluster.is_active

    def may_lead(broker_id: int) -> bool:
        directory = partition.directory(broker_id)
        if directory is None or not is_active(broker_id):
            return False
        broker = image.brokers.get(broker_id)
        return broker is not None and broker.has_online_directory(directory)

    return PartitionChange(
        state=state,
        topic_id=topic.topic_id,
        partition_id=partition_id,
        partition=partition,
        may_lead=may_lead,
        min_isr=state.min_isr(topic.name) if min_isr is None else min_isr,
        isr=list(partition.isr),
        replicas=list(partition.replicas),
        removing=list(partition.removing_replicas),
        adding=list(partition.adding_replicas),
        leader_recovery_state=partition.leader_recovery_state,
        directories=dict(zip(partition.replicas, partition.directories, strict=True)),
        _elr=list(partition.elr),
    )


def _is_empty(record: PartitionChangeRecord) -> bool:
    changes: Iterable[object] = (
        record.isr,
        record.eligible_leader_replicas,
        record.last_known_elr,
        record.replicas,
        record.removing_replicas,
        record.adding_replicas,
        record.directories,
    )
    return (
        all(change is None for change in changes)
        and record.leader == LEADER_UNCHANGED
        and record.leader_recovery_state == -1
    )
