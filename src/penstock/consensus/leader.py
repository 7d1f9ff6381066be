"""Tracks, on the leader of an epoch, the progress of all replicas, and derives the high watermark from it.

A follower's Fetch states that its log is durable up to the offset it asks for; of the leader's own log, the
flushed part counts. The high watermark is the offset that a majority of the voters has reached. It moves only
once it covers the leader's first record (Raft, section 5.4.2): records of earlier epochs are committed by a
later record of this epoch, never by counting replicas.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Final

from penstock.consensus.messages import FetchRequest
from penstock.consensus.voters import Endpoints, ReplicaKey, VoterSet
from penstock.protocol.uuids import ZERO_UUID

OBSERVER_SESSION_MS: Final = 300_000
"""Session timeout of observers: the leader drops an observer that has not fetched for this long."""
CHECK_QUORUM_FACTOR: Final = 1.5
"""Multiple of the fetch timeout after which a leader resigns if no majority has fetched from it."""
CAUGHT_UP_MS: Final = 3_600_000
"""A replica may become a voter if it has fetched within this time, one hour, and once reached the end."""


@dataclass(slots=True)
class Progress:
    """The progress of one replica according to its fetches. Times are in ms; -1 means never."""

    key: ReplicaKey
    endpoints: Endpoints = field(default_factory=dict)
    end_offset: int | None = None
    last_fetch_ms: int = -1
    last_fetch_leader_end: int = -1
    last_caught_up_ms: int = -1

    def matches(self, key: ReplicaKey) -> bool:
        return self.key.id == key.id and self.key.directory_id in (ZERO_UUID, key.directory_id)

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif 0 < self.last_fetch_leader_end <= offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.end_offset = offset


@dataclass(slots=True)
class ParkedFetch:
    """A Fetch that waits for records or a new high watermark."""

    token: int
    request: FetchRequest
    deadline_ms: float


@dataclass(slots=True)
class PendingChange:
    """The change of voters that is not committed yet; there is at most one."""

    deadline_ms: float
    token: int | None
    """Token of the request that waits for the change; None once it is answered."""
    offset: int | None = None
    """Offset of the VotersRecord; None before it is written."""
    added: ReplicaKey | None = None
    endpoints: Endpoints = field(default_factory=dict)
    ack_when_committed: bool = True


class Leader:
    """The leader of ``epoch``, whose first record is at ``epoch_start_offset``."""

    def __init__(
        self,
        local: ReplicaKey,
        endpoints: Endpoints,
        epoch: int,
        epoch_start_offset: int,
        voters: VoterSet,
        granting: Iterable[int],
        fetch_timeout_ms: int,
        now_ms: int,
    ) -> None:
        self.local = local
        self.leader_endpoints = endpoints
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.has_begun = False
        """Whether the leader's first record is in the log."""
        self.granting = tuple(granting)
        self.high_watermark: int | None = None
        self.voters = {voter.key.id: Progress(voter.key, voter.endpoints) for voter in voters}
        self.observers: dict[ReplicaKey, Progress] = {}
        self.volatile_voters: VoterSet | None = None
        """The voters with the directories and endpoints they sent, to upgrade from kraft.version 0."""
        self.parked: list[ParkedFetch] = []
        self.pending: PendingChange | None = None
        self.resign_requested = False
        self.begin_epoch_deadline_ms: float = now_ms
        self._known_voters = voters
        self._check_quorum_ms = int(fetch_timeout_ms * CHECK_QUORUM_FACTOR)
        self._check_quorum_deadline_ms: float = now_ms + self._check_quorum_ms
        self._fetched_voters: set[int] = set()

    @property
    def leader_id(self) -> int:
        return self.local.id

    @property
    def voted(self) -> ReplicaKey | None:
        return None

    @property
    def check_quorum_deadline_ms(self) -> float:
        return inf if len(self.voters) == 1 else self._check_quorum_deadline_ms

    # Replicas

    def follow_voters(self, voters: VoterSet) -> None:
        """Adopt the voters at the log's end; removed voters become observers."""
        if voters is self._known_voters:
            return
        self._known_voters = voters
        former, self.voters = self.voters, {}
        for voter in voters:
            progress = former.pop(voter.key.id, None)
            if progress is not None and not progress.matches(voter.key):
                former[voter.key.id] = progress
                progress = None
            progress = progress or self.observers.get(voter.key) or Progress(voter.key)
            self.observers.pop(voter.key, None)
            progress.key, progress.endpoints = voter.key, voter.endpoints
            self.voters[voter.key.id] = progress
        for progress in former.values():
            progress.endpoints = {}
            self.observers.setdefault(progress.key, progress)

    def progress(self, key: ReplicaKey) -> Progress:
        """The progress of a replica, which counts as an observer unless it is a known voter."""
        voter = self.voters.get(key.id)
        if voter is not None and voter.matches(key):
            return voter
        return self.observers.setdefault(key, Progress(key))

    def active_observers(self, now_ms: int) -> list[Progress]:
        """The observers with a live session; all others are dropped."""
        for key, progress in list(self.observers.items()):
            if now_ms - progress.last_fetch_ms >= OBSERVER_SESSION_MS and key != self.local:
                del self.observers[key]
        return list(self.observers.values())

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        progress = self.observers.get(key)
        return (
            progress is not None
            and progress.last_caught_up_ms > 0
            and progress.last_fetch_ms > max(0, now_ms - CAUGHT_UP_MS)
        )

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, those with the longest logs first."""
        others = [p for p in self.voters.values() if not p.matches(self.local)]
        others.sort(key=lambda p: (-1 if p.end_offset is None else p.end_offset, -p.key.id), reverse=True)
        return tuple(progress.key for progress in others)

    # Progress

    def flushed(self, end_offset: int) -> bool:
        """Note that the leader's own log is durable up to `end_offset`.

        Returns whether the high watermark moved.
        """
        progress = self.progress(self.local)
        progress.end_offset = max(end_offset, progress.end_offset or 0)
        return self._move_high_watermark()

    def fetched(self, key: ReplicaKey, offset: int, leader_end: int, now_ms: int) -> bool:
        """Note that a replica's log is durable up to ``offset``. Returns whether the high watermark moved."""
        known = len(self.observers)
        self.progress(key).fetched(offset, leader_end, now_ms)
        if len(self.observers) > known:
            self.active_observers(now_ms)
        self.heard_of(key, now_ms)
        return self._move_high_watermark()

    def heard_of(self, key: ReplicaKey, now_ms: int) -> None:
        """Note that a voter follows this leader; a majority of them extends the check-quorum deadline."""
        voter = self.voters.get(key.id)
        if voter is None or not voter.matches(key):
            return
        self._fetched_voters.add(key.id)
        majority = len(self.voters) // 2 + 1
        if self.local.id in self.voters:
            majority -= 1
        if len(self._fetched_voters & self.voters.keys()) >= majority:
            self._fetched_voters.clear()
            self._check_quorum_deadline_ms = now_ms + self._check_quorum_ms

    def _move_high_watermark(self) -> bool:
        offsets = sorted(-1 if p.end_offset is None else p.end_offset for p in self.voters.values())
        reached = offsets[(len(offsets) - 1) // 2]
        if reached <= self.epoch_start_offset:
            return False
        if self.high_watermark is not None and reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True
