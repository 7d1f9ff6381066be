"""The metadata log on disk: ``__cluster_metadata-0`` with its quorum-state file and snapshots.

What it knows is files; who may append and what counts as committed is decided by `consensus.raft`. `open`,
`flush`, `write_election` and `write_snapshot` block: they run in a worker, everything else on the loop.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from penstock.consensus.quorum_state import FILE_NAME as QUORUM_STATE
from penstock.consensus.quorum_state import ElectionState, QuorumStateError
from penstock.metadata import snapshot as snapshots
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.features import bootstrap_records
from penstock.metadata.image import MetadataDelta, MetadataImage
from penstock.metadata.snapshot import BOOTSTRAP_FILE, QuorumRecords, Snapshot, SnapshotError
from penstock.protocol import batch
from penstock.protocol.api_keys import TARGET_METADATA_LEVEL
from penstock.protocol.batch import BatchHeader
from penstock.protocol.messages import Message
from penstock.protocol.record_serde import UnknownRecordType, decode_metadata_record
from penstock.protocol.records import Record, decode_batch
from penstock.storage.config import LogConfig
from penstock.storage.errors import LogDirectoryError
from penstock.storage.files import REAL_FILES, FileSystem
from penstock.storage.log import AppendInfo, Log
from penstock.storage.names import CLUSTER_METADATA_TOPIC

log = logging.getLogger(__name__)

TOPIC_ID: Final = bytes(15) + b"\x01"
"""Kafka's fixed id of the metadata topic."""

_READ_BYTES: Final = 4 << 20


class SnapshotId(NamedTuple):
    """A snapshot stands for all records below ``end_offset``, the last of them written in ``epoch``."""

    end_offset: int
    epoch: int


class MetadataLog:
    """Opened by `open`, which recovers the log and reads it; closed by `close`."""

    def __init__(
        self,
        directory: Path,
        config: BrokerConfig,
        clock_ms: Callable[[], int],
        files: FileSystem = REAL_FILES,
        rng: random.Random | None = None,
    ) -> None:
        self.log_dir = directory
        self.directory = directory / f"{CLUSTER_METADATA_TOPIC}-0"
        self.quorum = QuorumRecords()
        self.latest_snapshot: SnapshotId | None = None
        self.last_timestamp_ms = -1
        self._clock_ms = clock_ms
        self._files = files
        self._rng = rng
        self._max_retention_bytes = config.get_int("metadata.max.retention.bytes")
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

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the newest record, 0 if there is none."""
        snapshot_epoch = self.latest_snapshot.epoch if self.latest_snapshot else 0
        return max(self.log.leader_epochs.latest, snapshot_epoch, 0)

    # Opening

    def open(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Recover the log and replay the newest snapshot and every record after it into ``image``.

        Raises LogDirectoryError for files that cannot be understood, OSError.
        """
        self._files.mkdir(self.directory, exist_ok=True)
        self._remove_unfinished_snapshots()
        try:
            start = self._load_snapshot(image, delta)
            self._log = Log.open(
                self.directory,
                CLUSTER_METADATA_TOPIC,
                0,
                self._log_config,
                clean=False,
                recovery_point=start,
                clock=self._clock_ms,
                files=self._files,
                rng=self._rng,
            )
            self.log.assign_topic_id(TOPIC_ID)
            if self.end_offset < start:
                self.log.truncate_fully_and_start_at(start)
            if self.log.log_start_offset > start:
                raise LogDirectoryError(
                    f"{self.directory}: the log begins at offset {self.log.log_start_offset} and the newest "
                    f"snapshot ends at {start}: records in between are missing; restore the snapshot file"
                )
            self._replay_log(start, image, delta)
        except (SnapshotError, batch.CorruptBatch, ValueError) as error:
            raise LogDirectoryError(f"{self.directory} cannot be read: {error}") from error
        if image.abandon_transaction():
            log.warning("metadata transaction without an end dropped offset=%d", image.offset)

    def _load_snapshot(self, image: MetadataImage, delta: MetadataDelta) -> int:
        """Replay the newest snapshot; the offset at which the log takes over."""
        found = self._snapshots()
        if not found:
            return 0
        self.latest_snapshot = newest = found[-1]
        content = self._read_snapshot(self._snapshot_path(newest))
        self.quorum = content.quorum
        for record in content.records:
            image.replay(record, delta)
        image.offset, image.epoch = newest.end_offset - 1, newest.epoch
        return newest.end_offset

    def _read_snapshot(self, path: Path) -> Snapshot:
        try:
            content = snapshots.decode_snapshot(path.read_bytes())
        except SnapshotError as error:
            raise SnapshotError(f"{path.name}: {error}") from error
        if content.unknown_records:
            log.warning("metadata records passed over file=%s count=%d", path.name, content.unknown_records)
        return content

    def _replay_log(self, start: int, image: MetadataImage, delta: MetadataDelta) -> None:
        for header, records in self._read_batches(start):
            for record in records:
                if record.offset < start:
                    continue
                if header.is_control:
                    self.quorum.replay(record)
                elif (message := _decode(record)) is not None:
                    image.replay(message, delta)
                image.offset = record.offset
            image.epoch = header.partition_leader_epoch
            self.last_timestamp_ms = header.max_timestamp

    def _read_batches(self, offset: int) -> Iterator[tuple[BatchHeader, Iterator[Record]]]:
        while offset < self.end_offset:
            piece = self.log.read(offset, _READ_BYTES)
            assert piece is not None, f"nothing at offset {offset} below the end"
            data = piece.read()
            for position, header in batch.iter_headers(data):
                yield header, decode_batch(data, position)
                offset = header.next_offset

    # The quorum's state

    def read_election(self) -> ElectionState | None:
        """What the quorum-state file holds; None before the first election. Raises LogDirectoryError."""
        path = self.directory / QUORUM_STATE
        try:
            return ElectionState.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (QuorumStateError, UnicodeDecodeError) as error:
            raise LogDirectoryError(f"{path}: {error}") from error

    def check_voters(self, node_id: int, election: ElectionState | None) -> None:
        """Raise LogDirectoryError if others vote too: alone, one of several would fork the cluster's log."""
        if self.quorum.voters is not None:
            voters = {voter.voter_id for voter in self.quorum.voters.voters}
        else:
            voters = set(election.voters if election is not None else ())
        if voters - {node_id}:
            raise LogDirectoryError(
                f"{self.directory} belongs to a controller quorum of the nodes {sorted(voters)}; this "
                f"release opens only directories whose one voter is the node itself, {node_id}"
            )

    def write_election(self, election: ElectionState) -> None:
        """Make the election state durable. Blocks."""
        text = election.to_json(version=min(self.quorum.kraft_version, 1))
        self._files.write_atomically(self.directory / QUORUM_STATE, text.encode())

    def bootstrap(self) -> list[Message]:
        """The records a new cluster begins with; written to bootstrap.checkpoint unless formatting did."""
        path = self.log_dir / BOOTSTRAP_FILE
        try:
            return self._read_snapshot(path).records
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

    # Writing

    def append(self, data: bytes, epoch: int) -> AppendInfo:
        """Append batches under a leader epoch; not durable before a `flush`. Raises LogError."""
        headers = batch.check_batches(data)
        self.last_timestamp_ms = headers[-1].max_timestamp
        return self.log.append(bytearray(data), headers, epoch)

    def flush(self) -> int:
        """Make what has been appended durable; the end offset up to which it is. Blocks. Raises LogError."""
        end_offset = self.end_offset
        self.log.flush()
        return end_offset

    def close(self) -> None:
        """Blocks. Raises LogError."""
        if self._log is not None:
            self._log.close()

    # Snapshots

    def write_snapshot(
        self, at: SnapshotId, records: Iterable[Message], metadata_version: int, last_timestamp_ms: int
    ) -> int:
        """Write a snapshot file; its size in bytes. Blocks.

        On the way, files that earlier snapshots made superfluous go, if their delay is over.
        """
        self.log.remove_deleted_files(self._clock_ms())
        content = snapshots.encode_snapshot(
            records,
            epoch=at.epoch,
            metadata_version=metadata_version,
            last_timestamp_ms=last_timestamp_ms,
            now_ms=self._clock_ms(),
            quorum=self.quorum,
        )
        data = b"".join(content)
        path = self._snapshot_path(at)
        unfinished = path.with_name(path.name + ".part")
        self._files.write_file(unfinished, data, sync=True)
        self._files.rename(unfinished, path)
        self._files.sync_directory(self.directory)
        return len(data)

    def installed_snapshot(self, at: SnapshotId, now_ms: int) -> None:
        """A snapshot is on disk: let go of what it makes superfluous once the log is over its limit."""
        self.latest_snapshot = at
        older = [found for found in self._snapshots() if found < at]
        size_bytes = self.log.size_bytes + sum(self._snapshot_path(s).stat().st_size for s in (*older, at))
        if size_bytes <= self._max_retention_bytes:
            return
        self.log.delete_records_before(at.end_offset)
        self.log.delete_old_segments(now_ms)
        for superfluous in older:
            self._snapshot_path(superfluous).unlink()

    def _snapshot_path(self, at: SnapshotId) -> Path:
        return self.directory / snapshots.file_name(*at)

    def _snapshots(self) -> list[SnapshotId]:
        parsed = (snapshots.parse_file_name(path.name) for path in self.directory.iterdir())
        return sorted(SnapshotId(*found) for found in parsed if found is not None)

    def _remove_unfinished_snapshots(self) -> None:
        for path in self.directory.glob("*.checkpoint.part"):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def _decode(record: Record) -> Message | None:
    """The message of a data record; None, with a log line, for a type this release does not know."""
    try:
        return decode_metadata_record(record.value or b"")[0]
    except UnknownRecordType as error:
        log.warning("metadata record passed over offset=%d error=%s", record.offset, error)
        return None
