"""Snapshots of the metadata log (KIP-630): reads and writes the bytes of a ``NNNN-EEEE.checkpoint`` file.

A snapshot consists of record batches as in the log: a control batch with the snapshot's header (and, with
kraft.version 1, the voters), batches of metadata records, and a control batch with the footer. Formatting
writes ``bootstrap.checkpoint`` in the same form for the first leader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from penstock.metadata.controller.features import record_version
from penstock.protocol import batch
from penstock.protocol.messages import (
    KRaftVersionRecord,
    Message,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from penstock.protocol.record_serde import UnknownRecordType, decode_metadata_record, encode_metadata_record
from penstock.protocol.records import (
    ControlRecordType,
    Record,
    control_record_type,
    decode_batch,
    encode_batch,
    encode_control_batch,
)

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"

_FILE_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_RECORDS_PER_BATCH: Final = 1000


class SnapshotError(ValueError):
    """A snapshot file is damaged or incomplete."""


@dataclass(slots=True)
class QuorumRecords:
    """The state in the quorum's own control records: the kraft.version, and the set of voters (KIP-853)."""

    kraft_version: int = 0
    voters: VotersRecord | None = None

    def replay(self, record: Record) -> None:
        """Apply one record of a control batch; records of other types are skipped."""
        kind = control_record_type(record.key)
        if kind is ControlRecordType.KRAFT_VERSION:
            self.kraft_version = KRaftVersionRecord.decode(0, record.value or b"")[0].kraft_version
        elif kind is ControlRecordType.KRAFT_VOTERS:
            self.voters = VotersRecord.decode(0, record.value or b"")[0]

    def entries(self) -> list[tuple[ControlRecordType, bytes]]:
        """The control records that restore this state; none for static voters."""
        if self.kraft_version == 0:
            return []
        version = KRaftVersionRecord(version=0, kraft_version=self.kraft_version)
        entries = [(ControlRecordType.KRAFT_VERSION, version.encode(0))]
        if self.voters is not None:
            entries.append((ControlRecordType.KRAFT_VOTERS, self.voters.encode(0)))
        return entries


@dataclass(slots=True)
class Snapshot:
    """The content of a snapshot file."""

    records: list[Message] = field(default_factory=list)
    quorum: QuorumRecords = field(default_factory=QuorumRecords)
    unknown_records: int = 0
    """The number of records of types unknown to this release, which are not in `records`."""


def file_name(end_offset: int, epoch: int) -> str:
    """The name of the snapshot of all records below ``end_offset``, the last of which is of ``epoch``."""
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"


def parse_file_name(name: str) -> tuple[int, int] | None:
    """Parse a snapshot's file name into (end offset, epoch); None for other files."""
    match = _FILE_NAME.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def encode_snapshot(
    records: Iterable[Message],
    *,
    epoch: int,
    metadata_version: int,
    last_timestamp_ms: int,
    now_ms: int,
    quorum: QuorumRecords | None = None,
) -> Iterator[bytes]:
    """Encode a snapshot file as batches; ``last_timestamp_ms`` is that of the last record it covers."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)
    entries = [(ControlRecordType.SNAPSHOT_HEADER, header.encode(0))]
    if quorum is not None:
        entries += quorum.entries()
    offset = 0
    yield encode_control_batch(entries, timestamp=now_ms, base_offset=0, partition_leader_epoch=epoch)
    offset += len(entries)
    remaining = iter(records)
    while chunk := list(islice(remaining, _RECORDS_PER_BATCH)):
        yield encode_records(chunk, metadata_version, now_ms, base_offset=offset, epoch=epoch)
        offset += len(chunk)
    footer = SnapshotFooterRecord(version=0)
    yield encode_control_batch(
        [(ControlRecordType.SNAPSHOT_FOOTER, footer.encode(0))],
        timestamp=now_ms,
        base_offset=offset,
        partition_leader_epoch=epoch,
    )


def encode_records(
    records: Iterable[Message], metadata_version: int, now_ms: int, base_offset: int = 0, epoch: int = -1
) -> bytes:
    """Encode one batch of metadata records, each in the version that ``metadata_version`` requires."""
    return encode_batch(
        [
            Record(0, now_ms, None, encode_metadata_record(record, record_version(record, metadata_version)))
            for record in records
        ],
        base_offset,
        partition_leader_epoch=epoch,
    )


def decode_snapshot(data: bytes) -> Snapshot:
    """Decode a snapshot file. Raises SnapshotError unless every batch up to the footer is valid."""
    snapshot = Snapshot()
    finished = False
    position = 0
    try:
        headers = batch.check_batches(data)
    except batch.CorruptBatch as error:
        raise SnapshotError(f"damaged batch: {error}") from error
    for header in headers:
        for record in decode_batch(data, position):
            if not header.is_control:
                _take(snapshot, record)
            elif control_record_type(record.key) is ControlRecordType.SNAPSHOT_FOOTER:
                finished = True
            else:
                snapshot.quorum.replay(record)
        position += header.size_bytes
    if not finished:
        raise SnapshotError("the footer is missing: the snapshot was not finished")
    return snapshot


def last_timestamp_ms(data: bytes) -> int | None:
    """Read the timestamp of the last record that a snapshot covers; None if the header cannot be read.

    The beginning of the file is enough, if it contains the whole first batch.
    """
    try:
        _position, header = next(batch.iter_headers(data))
        first = list(decode_batch(data, 0)) if header.is_control else []
    except (batch.CorruptBatch, batch.MalformedRecords, StopIteration):
        return None
    for record in first:
        if control_record_type(record.key) is ControlRecordType.SNAPSHOT_HEADER:
            return SnapshotHeaderRecord.decode(0, record.value or b"")[0].last_contained_log_timestamp
    return None


def _take(snapshot: Snapshot, record: Record) -> None:
    try:
        message, _ = decode_metadata_record(record.value or b"")
    except UnknownRecordType:
        snapshot.unknown_records += 1
        return
    snapshot.records.append(message)
