"""The metadata log on disk: ``__cluster_metadata-0`` with its quorum-state file and snapshots.

It is the `RaftLog` of this node's member of the quorum: `consensus` decides who may append and which records
count as committed. `open`, `flush`, `write_election`, `write_snapshot`, `read_snapshot`, `truncate_to`,
`install_snapshot` and `close` block: they run in a worker, while nothing else writes. All other methods run
on the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from penstock.broker.quorum.listener import CommittedBatch
from penstock.broker.quorum.snapshot_files import SnapshotFiles
from penstock.consensus.history import BOOTSTRAP_OFFSET, ControlHistory
from penstock.consensus.log import OffsetAndEpoch, SnapshotId
from penstock.consensus.quorum_state import FILE_NAME as QUORUM_STATE
from penstock.consensus.quorum_state import ElectionState, QuorumStateError
from penstock.consensus.voters import VoterSet
from penstock.metadata import snapshot as snapshots
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.features import bootstrap_records
from penstock.metadata.snapshot import BOOTSTRAP_FILE, QuorumRecords, SnapshotError, encode_records
from penstock.protocol import batch
from penstock.protocol.api_keys import TARGET_METADATA_LEVEL
from penstock.protocol.batch import BatchHeader, CorruptBatch, MalformedRecords
from penstock.protocol.messages import KRaftVersionRecord, LeaderChangeMessage, Message, VotersRecord
from penstock.protocol.record_serde import UnknownRecordType, decode_metadata_record
from penstock.protocol.records import (
    ControlRecordType,
    Record,
    control_record_type,
    decode_batch,
    encode_control_batch,
)
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import REAL_FILES, FileSystem
from penstock.storage.errors import LogDirectoryError, StorageFailed
from penstock.storage.names import CLUSTER_METADATA_TOPIC
from penstock.storage.partition.log import Log

log = logging.getLogger(__name__)

TOPIC_ID: Final = bytes(15) + b"\x01"
"""Kafka's fixed id of the metadata topic."""

SERVED_BYTES_MAX: Final = 8 << 20
"""The most bytes read at once for another node, whatever it requests; Kafka's nodes request 1 MiB."""
_READ_BYTES: Final = 1 << 20
_LEADER_CHANGE_VERSION: Final = 0
"""The only version that Kafka writes and reads, however the voters are stored."""


class MetadataLog:
    """The metadata log of one node. `open` recovers the log, `close` closes it.

    ``static_voters`` are the configured voters, in force as long as the log has no record of voters.
    """

    def __init__(
        self,
        directory: Path,
        config: BrokerConfig,
        clock_ms: Callable[[], int],
        files: FileSystem = REAL_FILES,
        static_voters: VoterSet | None = None,
    ) -> None:
        self.log_dir = directory
        self.directory = directory / f"{CLUSTER_METADATA_TOPIC}-0"
        self.history = ControlHistory(static_voters or VoterSet())
        self.snapshots = SnapshotFiles(self.directory, files)
        self._clock_ms = clock_ms
        self._files = files
        self.on_append: Callable[[CommittedBatch], None] = lambda appended: None
        """Called with each batch that this node appends as the leader."""
        segment_bytes = config["internal.metadata.log.segment.bytes"]
        self._log_config = LogConfig(
            segment_bytes=(
                segment_bytes
                if isinstance(segment_bytes, int)
                else config.get_int("metadata.log.segment.bytes")
            ),
            segment_ms=config.get_int("metadata.log.segment.ms"),
            max_message_bytes=config.get_int("internal.metadata.max.batch.size.in.bytes"),
            retention_ms=-1,
            file_delete_delay_ms=config.get_int("internal.metadata.delete.delay.millis"),
        )
        self._log: Log | None = None

    @property
    def log(self) -> Log:
        assert self._log is not None, "the metadata log is not open"
        return self._log

    # State

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def last_epoch(self) -> int:
        latest = self.log.leader_epochs.latest
        if latest >= 0:
            return latest
        # The log is empty, or begins with the snapshot.
        return self.snapshots.latest.epoch if self.snapshots.latest else 0

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return self.snapshots.earliest

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots.latest

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        found = self.log.end_offset_for_epoch(epoch)
        if found.epoch < 0:
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        earliest = self.snapshots.earliest
        if earliest is not None and (found.start_offset, found.epoch) == (earliest.end_offset, epoch):
            return OffsetAndEpoch(
                *earliest
            )  # the log begins with that epoch: the snapshot has the one before
        return OffsetAndEpoch(found.start_offset, found.epoch)

    # Opening

    def open(self) -> None:
        """Recover the log and read the quorum's own records in it.

        Raises LogDirectoryError for files that cannot be interpreted, and OSError.
        """
        self._files.mkdir(self.directory, exist_ok=True)
        self.snapshots.scan()
        try:
            latest = self.snapshots.latest
            start = 0
            if latest is not None:
                self._load_quorum(latest, self.snapshots.read(latest).quorum)
                start = latest.end_offset
            self._log = Log.open(
                self.directory,
                CLUSTER_METADATA_TOPIC,
                0,
                self._log_config,
                clean=False,
                recovery_point=start,
                clock=self._clock_ms,
                files=self._files,
            )
            self.log.assign_topic_id(TOPIC_ID)
            if latest is not None and not OffsetAndEpoch(self.end_offset, self.last_epoch).reaches(
                OffsetAndEpoch(*latest)
            ):
                self.log.truncate_fully_and_start_at(start)  # it was received and is newer than the log
            if self.log.log_start_offset > start:
                raise LogDirectoryError(
                    f"{self.directory}: the log begins at offset {self.log.log_start_offset} and the newest "
                    f"snapshot ends at {start}: records in between are missing; restore the snapshot file"
                )
            self._replay_control_records(start)
        except (SnapshotError, batch.CorruptBatch, ValueError) as error:
            raise LogDirectoryError(f"{self.directory} cannot be read: {error}") from error

    def _load_quorum(self, at: SnapshotId, quorum: QuorumRecords) -> None:
        """Load a snapshot's version and voters, in force from its end on."""
        self.history.clear()
        offset = at.end_offset - 1 if at.end_offset else BOOTSTRAP_OFFSET
        if quorum.kraft_version:
            self.history.add_kraft_version(offset, quorum.kraft_version)
        if quorum.voters is not None:
            self.history.add_voters(offset, VoterSet.from_record(quorum.voters))

    def _replay_control_records(self, start: int) -> None:
        offset = start
        while offset < self.end_offset:
            data = self._read(offset, self.end_offset)
            for position, header in batch.iter_headers(data):
                if header.is_control and header.base_offset >= start:
                    self._replay(decode_batch(data, position))
                offset = header.next_offset

    def _replay(self, records: Iterable[Record]) -> None:
        for record in records:
            kind = control_record_type(record.key)
            if kind is ControlRecordType.KRAFT_VERSION:
                version = KRaftVersionRecord.decode(0, record.value or b"")[0].kraft_version
                self.history.add_kraft_version(record.offset, version)
            elif kind is ControlRecordType.KRAFT_VOTERS:
                voters = VoterSet.from_record(VotersRecord.decode(0, record.value or b"")[0])
                log.info("metadata quorum voters=%s offset=%d", voters, record.offset)
                self.history.add_voters(record.offset, voters)

    # Reading

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Read whole batches from ``offset`` on, at least one; nothing at the log's end. Raises LogError."""
        piece = self.log.read(offset, min(max_bytes, SERVED_BYTES_MAX))
        return b"" if piece is None else bytes(piece.read())

    def _read(self, offset: int, up_to_offset: int) -> bytes:
        piece = self.log.read(offset, _READ_BYTES, up_to_offset=up_to_offset)
        assert piece is not None, f"nothing at offset {offset} below {up_to_offset}"
        return bytes(piece.read())

    def read_batches(self, offset: int, up_to_offset: int) -> list[CommittedBatch]:
        """Read a piece of the log and decode its batches; ``offset`` must begin one. Runs in any thread."""
        data = self._read(offset, up_to_offset)
        return [
            _decoded(data, position, header)
            for position, header in batch.iter_headers(data)
            if header.base_offset >= offset
        ]

    def read_snapshot(self, at: SnapshotId) -> list[Message]:
        """Return the metadata records of a snapshot. Blocks. Raises LogDirectoryError, OSError."""
        try:
            return self.snapshots.read(at).records
        except SnapshotError as error:
            raise LogDirectoryError(f"{self.directory} cannot be read: {error}") from error

    def snapshot_piece(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        return self.snapshots.piece(snapshot, position, min(max_bytes, SERVED_BYTES_MAX))

    # The quorum's state

    def read_election(self) -> ElectionState | None:
        """The quorum-state file's content; None before the first election. Raises LogDirectoryError."""
        path = self.directory / QUORUM_STATE
        try:
            return ElectionState.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (QuorumStateError, UnicodeDecodeError) as error:
            raise LogDirectoryError(f"{path}: {error}") from error

    def write_election(self, election: ElectionState) -> None:
        """Make the election state durable. Blocks. Raises OSError."""
        text = election.to_json(version=min(self.history.kraft_version, 1))
        self._files.write_atomically(self.directory / QUORUM_STATE, text.encode())

    def bootstrap(self) -> list[Message]:
        """Return the records that a new cluster begins with.

        Writes them to bootstrap.checkpoint, unless formatting did. Blocks. Raises LogDirectoryError, OSError.
        """
        path = self.log_dir / BOOTSTRAP_FILE
        try:
            return self.snapshots.decode(path).records
        except FileNotFoundError:
            pass
        except SnapshotError as error:
            raise LogDirectoryError(f"{path}: {error}") from error
        records = bootstrap_records()
        content = snapshots.encode_snapshot(
            records,
            epoch=0,
            metadata_version=TARGET_METADATA_LEVEL,
            last_timestamp_ms=0,
            now_ms=self._clock_ms(),
        )
        self._files.write_atomically(path, b"".join(content))
        return records

    # Writing as the leader

    def append_records(self, epoch: int, records: Sequence[Message], metadata_version: int) -> None:
        """Append records as one batch, which becomes durable with the next `flush`. Raises LogError."""
        now_ms = self._clock_ms()
        data = encode_records(records, metadata_version, now_ms)
        self._append(data, epoch, now_ms, records)

    def begin_epoch(
        self,
        epoch: int,
        leader_id: int,
        voter_ids: tuple[int, ...],
        granting_ids: tuple[int, ...],
        kraft_version: int | None,
        voters: VoterSet | None,
    ) -> None:
        voter = LeaderChangeMessage.Voter
        change = LeaderChangeMessage(
            version=_LEADER_CHANGE_VERSION,
            leader_id=leader_id,
            voters=[voter(voter_id=voter_id) for voter_id in voter_ids],
            granting_voters=[voter(voter_id=voter_id) for voter_id in granting_ids],
        )
        entries = [(ControlRecordType.LEADER_CHANGE, change.encode(_LEADER_CHANGE_VERSION))]
        self._append_control(epoch, entries + _voter_entries(kraft_version, voters))

    def append_voters(self, epoch: int, kraft_version: int | None, voters: VoterSet | None) -> int:
        self._append_control(epoch, _voter_entries(kraft_version, voters))
        return self.end_offset - 1

    def _append_control(self, epoch: int, entries: Sequence[tuple[ControlRecordType, bytes]]) -> None:
        now_ms = self._clock_ms()
        data = encode_control_batch(entries, timestamp=now_ms, base_offset=self.end_offset)
        self._append(data, epoch, now_ms, ())
        self._replay(decode_batch(data, 0))

    def _append(self, data: bytes, epoch: int, now_ms: int, records: Sequence[Message]) -> None:
        headers = batch.check_batches(data)
        info = self.log.append(bytearray(data), headers, epoch)
        self.on_append(CommittedBatch(info.first_offset, info.last_offset, epoch, now_ms, len(data), records))

    # Writing as a follower

    def append_fetched(self, records: bytes) -> bool:
        """Append the leader's batches unchanged; return False if the disk is full. Raises LogError."""
        try:
            self._append_fetched(records)
        except StorageFailed as error:
            if self.log.failure is not None:
                raise
            # Storage logs a full disk itself, at a higher level and not each time.
            log.debug("metadata records not appended, they will be fetched again error=%s", error)
            return False
        return True

    def _append_fetched(self, records: bytes) -> None:
        position = start = 0
        run: list[BatchHeader] = []
        for position, header in batch.iter_headers(records):
            if not self._is_next(records, position, header, run):
                break
            begins_epoch = run and header.partition_leader_epoch != run[-1].partition_leader_epoch
            if begins_epoch or position + header.size_bytes - start > self._log_config.segment_bytes:
                self._append_run(records, start, run)
                run, start = [], position
            run.append(header)
        self._append_run(records, start, run)

    def _is_next(self, data: bytes, position: int, header: BatchHeader, run: Sequence[BatchHeader]) -> bool:
        expected = run[-1].next_offset if run else self.end_offset
        if header.base_offset == expected and batch.crc_is_valid(data, header, position):
            return True
        log.error(
            "metadata batch of the leader discarded, because its offset or its checksum is wrong "
            "offset=%d expected=%d",
            header.base_offset,
            expected,
        )
        return False

    def _append_run(self, data: bytes, start: int, run: Sequence[BatchHeader]) -> None:
        """Append batches of one epoch."""
        if not run:
            return
        end = start + sum(header.size_bytes for header in run)
        self.log.append(bytearray(data[start:end]), run, run[0].partition_leader_epoch)
        for header in run:
            if header.is_control:
                try:
                    self._replay(decode_batch(data, start))
                except MalformedRecords as error:
                    raise CorruptBatch(f"control batch at offset {header.base_offset}: {error}") from error
            start += header.size_bytes

    def truncate_to(self, offset: int) -> None:
        """Truncate the log and its history to ``offset``. Blocks. Raises LogError."""
        self.log.truncate_to(offset)
        self.history.truncate_to(offset)

    def receive_snapshot(self, snapshot: SnapshotId) -> bool:
        return self.snapshots.receive(snapshot)

    @property
    def receiving_snapshot(self) -> tuple[SnapshotId, int] | None:
        return self.snapshots.receiving

    def receive_snapshot_piece(self, data: bytes) -> None:
        self.snapshots.receive_piece(data)

    def install_snapshot(self) -> bool:
        """Keep the received snapshot and restart the log at its end; return False if it is damaged.

        Blocks. Raises LogError, OSError.
        """
        try:
            at, content = self.snapshots.complete()
        except SnapshotError as error:
            log.error("metadata snapshot of the leader is damaged, it will be fetched again error=%s", error)
            return False
        self.log.truncate_fully_and_start_at(at.end_offset)
        self.snapshots.add(at)
        self.snapshots.remove_older_than(at)
        self._load_quorum(at, content.quorum)
        log.info("metadata snapshot installed end_offset=%d epoch=%d", *at)
        return True

    def flush(self) -> int:
        """Make all appended records durable and return their end offset. Blocks. Raises LogError."""
        end_offset = self.end_offset
        self.log.flush()
        return end_offset

    def close(self) -> None:
        """Close the log. Blocks. Raises LogError."""
        if self._log is not None:
            self._log.close()

    # Writing snapshots

    def quorum_records(self, end_offset: int) -> QuorumRecords:
        """Return the version and the voters in force at a snapshot's end."""
        voters = self.history.voters_at(end_offset - 1)
        return QuorumRecords(
            self.history.kraft_version_at(end_offset - 1), None if voters is None else voters.to_record()
        )

    def write_snapshot(
        self,
        at: SnapshotId,
        records: Iterable[Message],
        metadata_version: int,
        last_timestamp_ms: int,
        quorum: QuorumRecords,
    ) -> int:
        """Write a snapshot file and return its size in bytes. Blocks. Raises OSError.

        The caller must call `keep_snapshot` next, on the loop.
        """
        content = snapshots.encode_snapshot(
            records,
            epoch=at.epoch,
            metadata_version=metadata_version,
            last_timestamp_ms=last_timestamp_ms,
            now_ms=self._clock_ms(),
            quorum=quorum,
        )
        return self.snapshots.write(at, content)

    def keep_snapshot(self, at: SnapshotId) -> None:
        """Take note that a snapshot is on disk."""
        self.snapshots.add(at)

    def forget_oldest_snapshot(self, now_ms: int) -> None:
        """Remove the oldest snapshot, and the log up to the next snapshot's end.

        Raises LogError, OSError.
        """
        at = self.snapshots.after_earliest
        self.log.delete_records_before(at.end_offset)
        self.log.delete_old_segments(now_ms)
        self.snapshots.remove_older_than(at)
        self.history.forget_before(at.end_offset)
        log.info("metadata log begins with the snapshot end_offset=%d epoch=%d", *at)


def _voter_entries(
    kraft_version: int | None, voters: VoterSet | None
) -> list[tuple[ControlRecordType, bytes]]:
    entries = []
    if kraft_version is not None:
        record = KRaftVersionRecord(version=0, kraft_version=kraft_version)
        entries.append((ControlRecordType.KRAFT_VERSION, record.encode(0)))
    if voters is not None:
        entries.append((ControlRecordType.KRAFT_VOTERS, voters.to_record().encode(0)))
    return entries


def _decoded(data: bytes, position: int, header: BatchHeader) -> CommittedBatch:
    records = [] if header.is_control else list(_messages(decode_batch(data, position)))
    return CommittedBatch(
        base_offset=header.base_offset,
        last_offset=header.next_offset - 1,
        epoch=header.partition_leader_epoch,
        timestamp_ms=header.max_timestamp,
        size_bytes=header.size_bytes,
        records=records,
    )


def _messages(records: Iterable[Record]) -> Iterator[Message]:
    for record in records:
        try:
            yield decode_metadata_record(record.value or b"")[0]
        except UnknownRecordType as error:
            log.warning("metadata record skipped offset=%d error=%s", record.offset, error)
