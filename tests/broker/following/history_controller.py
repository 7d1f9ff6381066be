"""A minimal controller of one partition with three replicas, for the histories only.

Elections are clean: it elects an in-sync replica, or else one that left the ISR while that was smaller than
`min.insync.replicas` (KIP-966). A broker that restarts after a crash is in neither set.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.metadata.image import PartitionRegistration
from penstock.protocol.errors import ErrorCode

NODES = (1, 2, 3)
MIN_ISR = 2


@dataclass(frozen=True)
class Metadata:
    """The state of the metadata log at one offset."""

    registration: PartitionRegistration
    epochs: dict[int, int] = field(default_factory=dict)
    """The broker epoch by broker."""
    fenced: frozenset[int] = frozenset()


class Controller:
    def __init__(self) -> None:
        self.next_epoch = 1
        self.log: list[Metadata] = [
            Metadata(
                PartitionRegistration(replicas=NODES, isr=NODES, leader=1, leader_epoch=0, partition_epoch=0),
                {},
                frozenset(NODES),
            )
        ]

    @property
    def now(self) -> Metadata:
        return self.log[-1]

    def safe(self) -> set[int]:
        """The replicas that have all committed records."""
        registration = self.now.registration
        return {*registration.isr, *registration.elr}

    def register(self, node_id: int, *, clean: bool) -> int:
        """Register a starting broker and return its epoch."""
        epoch, self.next_epoch = self.next_epoch, self.next_epoch + 1
        now = self.now
        registration = now.registration
        if now.epochs.get(node_id) is not None and not clean:
            isr = tuple(member for member in registration.isr if member != node_id)
            elr = tuple(member for member in registration.elr if member != node_id)
            if (isr, elr) != (registration.isr, registration.elr):
                registration = replace(registration, elr=elr)
                registration = self._changed(registration, isr, forget=node_id)
        self._append(registration, {**now.epochs, node_id: epoch}, now.fenced | {node_id})
        self.elect()
        return epoch

    def unfence(self, node_id: int) -> None:
        self._append(self.now.registration, self.now.epochs, self.now.fenced - {node_id})
        self.elect()

    def fence(self, node_id: int) -> None:
        registration = self.now.registration
        if node_id in registration.isr:
            isr = tuple(member for member in registration.isr if member != node_id)
            registration = self._changed(registration, isr)
        self._append(registration, self.now.epochs, self.now.fenced | {node_id})
        self.elect()

    def elect(self) -> None:
        """Elect a live replica with all committed records, if any; keep the leader while it is in sync."""
        registration = self.now.registration
        if registration.leader in registration.isr:
            return
        candidates = [m for m in (*registration.isr, *registration.elr) if m not in self.now.fenced]
        leader = candidates[0] if candidates else -1
        if leader == registration.leader:
            return
        isr = registration.isr
        if leader >= 0 and leader not in isr:
            isr = (*isr, leader)
        registration = self._changed(registration, isr)
        registration = replace(registration, leader=leader, leader_epoch=registration.leader_epoch + 1)
        self._append(registration, self.now.epochs, self.now.fenced)

    def prefer(self, node_id: int) -> None:
        """Move leadership to another in-sync replica."""
        registration = self.now.registration
        if node_id in registration.isr and node_id not in self.now.fenced and node_id != registration.leader:
            registration = replace(
                registration,
                leader=node_id,
                leader_epoch=registration.leader_epoch + 1,
                partition_epoch=registration.partition_epoch + 1,
            )
            self._append(registration, self.now.epochs, self.now.fenced)

    def alter(
        self, sender: int, leader_epoch: int, partition_epoch: int, isr: dict[int, int]
    ) -> tuple[ErrorCode, PartitionRegistration]:
        """Handle AlterPartition, which gives the ISR with broker epochs."""
        registration, now = self.now.registration, self.now
        if leader_epoch != registration.leader_epoch or sender != registration.leader:
            return ErrorCode.FENCED_LEADER_EPOCH, registration
        if partition_epoch != registration.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION, registration
        for member, epoch in isr.items():
            if member in now.fenced or epoch not in (-1, now.epochs.get(member)):
                return ErrorCode.INELIGIBLE_REPLICA, registration
        self._append(self._changed(registration, tuple(isr)), now.epochs, now.fenced)
        return ErrorCode.NONE, self.now.registration

    def _changed(
        self, registration: PartitionRegistration, isr: tuple[int, ...], forget: int = 0
    ) -> PartitionRegistration:
        """The state with another ISR; replicas that leave it while it is too small stay eligible."""
        elr: tuple[int, ...] = ()
        if len(isr) < MIN_ISR:
            eligible = dict.fromkeys((*registration.elr, *registration.isr))
            elr = tuple(member for member in eligible if member not in isr and member != forget)
        return replace(registration, isr=isr, elr=elr, partition_epoch=registration.partition_epoch + 1)

    def _append(
        self, registration: PartitionRegistration, epochs: dict[int, int], fenced: frozenset[int]
    ) -> None:
        self.log.append(Metadata(registration, epochs, fenced))
