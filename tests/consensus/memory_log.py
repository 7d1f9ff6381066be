"""A replicated log in memory that loses unflushed entries on a crash."""

import pickle
import random
from typing import NamedTuple

from penstock.consensus.history import BOOTSTRAP_OFFSET, ControlHistory
from penstock.consensus.log import BOOTSTRAP_SNAPSHOT, OffsetAndEpoch, SnapshotId
from penstock.consensus.voters import VoterSet


class Entry(NamedTuple):
    """One record; its offset is its place."""

    epoch: int
    kind: str
    value: object


class Snapshot(NamedTuple):
    values: tuple[object, ...]
    """The values of all data records below the end of the snapshot."""
    kraft_version: int
    voters: VoterSet | None


class MemoryLog:
    """`RaftLog`, whose bytes are pickled entries. Entries below ``durable_end`` survive a crash."""

    def __init__(self, static_voters: VoterSet) -> None:
        self.history = ControlHistory(static_voters)
        self.entries: list[Entry] = []
        self.start_offset = 0
        self.durable_end = 0
        self.snapshots: dict[SnapshotId, Snapshot] = {}
        self._receiving: tuple[SnapshotId, bytearray] | None = None

    # Content

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.entries)

    @property
    def last_epoch(self) -> int:
        if self.entries:
            return self.entries[-1].epoch
        return self.latest_snapshot.epoch if self.latest_snapshot else 0

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return min(self.snapshots, default=None)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    def entry(self, offset: int) -> Entry:
        return self.entries[offset - self.start_offset]

    def values(self, end_offset: int) -> tuple[object, ...]:
        """The values of the data records below an offset."""
        base: tuple[object, ...] = ()
        start = 0
        for at, snapshot in self.snapshots.items():
            if start <= at.end_offset <= end_offset:
                start, base = at.end_offset, snapshot.values
        tail = self.entries[start - self.start_offset : end_offset - self.start_offset]
        return base + tuple(entry.value for entry in tail if entry.kind == "data")

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        if epoch > self.last_epoch or not self.entries:
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        found = None
        for offset, entry in enumerate(self.entries, self.start_offset):
            if entry.epoch > epoch:
                return OffsetAndEpoch(offset, epoch if found is None else found)
            found = entry.epoch
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = self.entries[offset - self.start_offset :][: max(1, max_bytes // 100)]
        return pickle.dumps((offset, found)) if found else b""

    # Writing

    def begin_epoch(
        self,
        epoch: int,
        leader_id: int,
        voter_ids: tuple[int, ...],
        granting_ids: tuple[int, ...],
        kraft_version: int | None,
        voters: VoterSet | None,
    ) -> None:
        self._append(Entry(epoch, "leader", leader_id))
        if kraft_version is not None:
            self.append_voters(epoch, kraft_version, voters)

    def append_voters(self, epoch: int, kraft_version: int | None, voters: VoterSet | None) -> int:
        if kraft_version is not None:
            self._append(Entry(epoch, "version", kraft_version))
        if voters is not None:
            self._append(Entry(epoch, "voters", voters))
        return self.end_offset - 1

    def append_data(self, epoch: int, value: object) -> int:
        self._append(Entry(epoch, "data", value))
        return self.end_offset - 1

    def append_fetched(self, records: bytes) -> bool:
        offset, entries = pickle.loads(records)
        assert offset == self.end_offset
        for entry in entries:
            self._append(entry)
        return True

    def _append(self, entry: Entry) -> None:
        offset = self.end_offset
        self.entries.append(entry)
        if entry.kind == "voters":
            assert isinstance(entry.value, VoterSet)
            self.history.add_voters(offset, entry.value)
        elif entry.kind == "version":
            assert isinstance(entry.value, int)
            self.history.add_kraft_version(offset, entry.value)

    def truncate_to(self, offset: int) -> None:
        assert offset >= self.start_offset
        del self.entries[offset - self.start_offset :]
        self.durable_end = min(self.durable_end, offset)
        self.history.truncate_to(offset)

    # Snapshots

    def format(self, voters: VoterSet) -> None:
        """Format the log as that of a voter in a dynamic quorum."""
        self.snapshots[BOOTSTRAP_SNAPSHOT] = Snapshot((), 1, voters)
        self._load(BOOTSTRAP_SNAPSHOT)

    def take_snapshot(self, end_offset: int, *, trim: bool) -> None:
        """Take a snapshot of the committed records; with ``trim`` the log then starts with it."""
        if end_offset <= self.start_offset:
            return
        at = SnapshotId(end_offset, self.entry(end_offset - 1).epoch)
        if at not in self.snapshots:
            history = self.history
            self.snapshots[at] = Snapshot(
                self.values(end_offset),
                history.kraft_version_at(end_offset - 1),
                history.voters_at(end_offset - 1),
            )
        if trim:
            del self.entries[: end_offset - self.start_offset]
            self.start_offset = end_offset
            self.durable_end = max(self.durable_end, end_offset)
            self.history.forget_before(end_offset)
            self.snapshots = {at: self.snapshots[at]}

    def snapshot_piece(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        found = self.snapshots.get(snapshot)
        if found is None:
            return None
        data = pickle.dumps(found)
        return data[position : position + max_bytes], len(data)

    def receive_snapshot(self, snapshot: SnapshotId) -> bool:
        if snapshot in self.snapshots:
            return False
        self._receiving = (snapshot, bytearray())
        return True

    @property
    def receiving_snapshot(self) -> tuple[SnapshotId, int] | None:
        return None if self._receiving is None else (self._receiving[0], len(self._receiving[1]))

    def receive_snapshot_piece(self, data: bytes) -> None:
        assert self._receiving is not None
        self._receiving[1].extend(data)

    def install_snapshot(self) -> None:
        assert self._receiving is not None
        (at, data), self._receiving = self._receiving, None
        self.snapshots = {at: pickle.loads(data)}
        self.entries = []
        self.start_offset = self.durable_end = at.end_offset
        self._load(at)

    def _load(self, at: SnapshotId) -> None:
        snapshot = self.snapshots[at]
        self.history.clear()
        offset = at.end_offset - 1 if at.end_offset else BOOTSTRAP_OFFSET
        if snapshot.kraft_version:
            self.history.add_kraft_version(offset, snapshot.kraft_version)
        if snapshot.voters is not None:
            self.history.add_voters(offset, snapshot.voters)

    # Power

    def crash(self, rng: random.Random) -> None:
        """Lose some unflushed entries, and any snapshot that is being received."""
        keep = rng.randint(min(self.durable_end, self.end_offset), self.end_offset)
        self.truncate_to(keep)
        self.durable_end = keep
        self._receiving = None
