"""Reads a partition's files without a node, to verify them and to show their contents.

No file is written or opened for writing. A node may run meanwhile; its newest batches may then look
truncated. This works on directories of Apache Kafka too.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from penstock.protocol.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    MalformedRecords,
    crc_is_valid,
    parse_header,
)
from penstock.protocol.records import ControlRecordType, control_record_type, decode_batch
from penstock.storage.disk.checkpoints import CheckpointCorrupt, read_entries
from penstock.storage.disk.files import REAL_FILES
from penstock.storage.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    TopicPartition,
    offset_of_file,
    parse_directory_name,
)
from penstock.storage.partition import leader_epochs, partition_metadata
from penstock.storage.producers import snapshot_format
from penstock.storage.segments.transaction_index import AbortedTransaction, TransactionIndex

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")


class Finding(NamedTuple):
    """One problem in a file; `offset` and `position` (a byte of `file`) are None if they do not apply."""

    partition: TopicPartition | None
    file: Path
    offset: int | None
    position: int | None
    problem: str
    is_damage: bool = True
    """False for a finding that may be correct, such as missing offsets, which compaction leaves."""

    def __str__(self) -> str:
        where = [str(self.partition)] if self.partition else []
        if self.offset is not None:
            where.append(f"offset {self.offset}")
        where.append(str(self.file))
        if self.position is not None:
            where.append(f"byte {self.position}")
        return f"{', '.join(where)}: {self.problem}"


class Batch(NamedTuple):
    """One batch of a `.log` file; `damage` says why its bytes differ from what was written."""

    position: int
    header: BatchHeader
    data: memoryview
    damage: str | None


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    """Map a file into memory for reading. Raises OSError."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield memoryview(b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole, memoryview(whole) as view:
            yield view


def batches(data: memoryview) -> Iterator[Batch]:
    """Iterate over the batches in the bytes of a `.log` file; their slices are valid as long as `data`.

    A batch whose checksum fails is returned with its damage, and the next one is expected where its header
    says that it ends. Raises CorruptBatch if no further batch can be recognized; the message names the byte.
    """
    position = 0
    while position < len(data):
        remaining = len(data) - position
        if not any(data[position : position + HEADER_SIZE]) and not any(data[position:]):
            raise CorruptBatch(f"byte {position}: {remaining} zero bytes up to the end")
        try:
            header = parse_header(data, position)
        except CorruptBatch as error:
            raise CorruptBatch(f"byte {position}: {error}") from None
        end = position + header.size_bytes
        if header.batch_length <= 0 or end > len(data):
            raise CorruptBatch(
                f"byte {position}: a batch of {header.size_bytes} bytes, but only {remaining} are left"
            )
        damage = None if crc_is_valid(data, header, position) else "its checksum fails"
        yield Batch(position, header, data[position:end], damage)
        position = end


def offset_entries(path: Path) -> list[tuple[int, int]]:
    """(offset, position) of each entry of an offset index, up to the zeros that Kafka preallocates."""
    return _entries(path, _OFFSET_ENTRY, 0)


def time_entries(path: Path) -> list[tuple[int, int]]:
    """(timestamp, offset) of each entry of a time index, up to the zeros that Kafka preallocates."""
    return _entries(path, _TIME_ENTRY, 1)


def _entries(path: Path, entry: Struct, relative: int) -> list[tuple[int, int]]:
    base_offset = offset_of_file(path.name) or 0
    data = path.read_bytes()
    found: list[tuple[int, int]] = []
    for fields in entry.iter_unpack(data[: len(data) // entry.size * entry.size]):
        if found and not any(fields):
            break
        if any(fields):
            absolute = list(fields)
            absolute[relative] += base_offset
            found.append((absolute[0], absolute[1]))
    return found


def partitions_in(path: Path) -> list[Path]:
    """The partition directories in a log directory, or `path` itself if it is one. Raises OSError."""
    if any(child.name.endswith(LOG_SUFFIX) for child in path.iterdir()):
        return [path]
    return sorted(
        child
        for child in path.iterdir()
        if child.is_dir() and (name := parse_directory_name(child.name)) is not None and not name.mark
    )


@dataclass
class _Walk:
    """The state of verifying one partition, segment by segment."""

    partition: TopicPartition | None
    directory: Path
    end_offset: int = -1
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    open_since: dict[int, int] = field(default_factory=dict)
    aborted: dict[tuple[int, int], int] = field(default_factory=dict)
    """(producer id, offset of the marker) → first offset, for transactions whose start was seen."""


class Verified(NamedTuple):
    """The result of verifying one partition: what it contains, and the findings."""

    directory: Path
    start_offset: int
    end_offset: int
    segments: int
    batches: int
    records: int
    size_bytes: int
    findings: list[Finding]


def verify_partition(directory: Path, *, decode_records: bool = False) -> Verified:
    """Verify all files of a partition; with `decode_records`, every record too. Raises OSError."""
    name = parse_directory_name(directory.name)
    walk = _Walk(name.topic_partition if name else None, directory)
    segments = sorted(
        path for path in directory.glob("*" + LOG_SUFFIX) if offset_of_file(path.name) is not None
    )
    findings: list[Finding] = []
    for path in segments:
        findings += _verify_segment(walk, path, is_last=path == segments[-1], decode_records=decode_records)
    findings += _verify_snapshots(walk)
    findings += _verify_small_files(walk)
    start = (offset_of_file(segments[0].name) or 0) if segments else 0
    end = max(walk.end_offset, (offset_of_file(segments[-1].name) or 0) if segments else 0)
    counts = len(segments), walk.batches, walk.records, walk.size_bytes
    return Verified(directory, start, end, *counts, findings)


def _verify_segment(walk: _Walk, path: Path, *, is_last: bool, decode_records: bool) -> Iterator[Finding]:
    base_offset = offset_of_file(path.name) or 0
    if walk.end_offset > base_offset:
        yield Finding(
            walk.partition, path, base_offset, 0, f"begins below offset {walk.end_offset}, the end before it"
        )
    elif -1 < walk.end_offset < base_offset:
        yield _gap(walk, path, walk.end_offset, base_offset, 0)
    walk.end_offset = base_offset
    boundaries: dict[int, BatchHeader] = {}
    with mapped(path) as data:
        walk.size_bytes += len(data)
        try:
            for batch in batches(data):
                boundaries[batch.position] = batch.header
                yield from _verify_batch(walk, path, batch, decode_records=decode_records)
                batch.data.release()
        except CorruptBatch as error:
            what = "the end is not a whole batch, as after a crash" if is_last else "the rest cannot be read"
            yield Finding(walk.partition, path, walk.end_offset, None, f"{what}: {error}")
    yield from _verify_offset_index(walk, path.with_suffix(OFFSET_INDEX_SUFFIX), boundaries)
    yield from _verify_time_index(walk, path.with_suffix(TIME_INDEX_SUFFIX), boundaries)
    yield from _verify_transaction_index(walk, path.with_suffix(TRANSACTION_INDEX_SUFFIX), base_offset)


def _gap(walk: _Walk, path: Path, first: int, following: int, position: int) -> Finding:
    missing = f"offsets {first} to {following - 1} are missing, as after compaction"
    return Finding(walk.partition, path, first, position, missing, is_damage=False)


def _verify_batch(walk: _Walk, path: Path, batch: Batch, *, decode_records: bool) -> Iterator[Finding]:
    header, position = batch.header, batch.position

    def damage(problem: str) -> Finding:
        return Finding(walk.partition, path, header.base_offset, position, problem)

    walk.batches += 1
    if batch.damage:
        yield damage(batch.damage)
        return
    walk.records += header.count
    if header.base_offset < walk.end_offset and header.magic >= 2:
        yield damage(f"its offset is below {walk.end_offset}, the next expected")
    elif header.base_offset > walk.end_offset:
        yield _gap(walk, path, walk.end_offset, header.base_offset, position)
    walk.end_offset = max(walk.end_offset, header.next_offset)
    try:
        if decode_records:
            count = sum(1 for _ in decode_batch(batch.data))
            if header.magic >= 2 and count != header.count:
                yield damage(f"it has {count} records, but its header says {header.count}")
        _follow_transaction(walk, header, batch.data)
    except MalformedRecords as error:
        yield damage(f"its records cannot be decoded: {error}")


def _follow_transaction(walk: _Walk, header: BatchHeader, data: memoryview) -> None:
    if not header.is_transactional or not header.has_producer_id:
        return
    if not header.is_control:
        walk.open_since.setdefault(header.producer_id, header.base_offset)
        return
    record = next(decode_batch(data), None)
    begun = walk.open_since.pop(header.producer_id, None)
    if begun is not None and record and control_record_type(record.key) is ControlRecordType.ABORT:
        walk.aborted[header.producer_id, header.base_offset] = begun


def _verify_offset_index(walk: _Walk, path: Path, boundaries: dict[int, BatchHeader]) -> Iterator[Finding]:
    if not path.exists():
        yield Finding(
            walk.partition, path, None, None, "is missing; the next start rebuilds it", is_damage=False
        )
        return
    before = (-1, -1)
    for slot, (offset, position) in enumerate(offset_entries(path)):
        header, at = boundaries.get(position), slot * _OFFSET_ENTRY.size
        if header is None:
            yield Finding(walk.partition, path, offset, at, f"no batch begins at byte {position} of the log")
        elif not header.base_offset <= offset:
            yield Finding(
                walk.partition,
                path,
                offset,
                at,
                f"the batch at byte {position} begins at offset {header.base_offset}",
            )
        if offset <= before[0] or position <= before[1]:
            yield Finding(walk.partition, path, offset, at, "is not above the entry before it")
        before = (offset, position)


def _verify_time_index(walk: _Walk, path: Path, boundaries: dict[int, BatchHeader]) -> Iterator[Finding]:
    if not path.exists():
        yield Finding(
            walk.partition, path, None, None, "is missing; the next start rebuilds it", is_damage=False
        )
        return
    headers = iter(boundaries.values())
    header = next(headers, None)
    latest, before = -1, (-1, -1)
    for slot, (timestamp, offset) in enumerate(time_entries(path)):
        while header is not None and header.base_offset <= offset:
            latest = max(latest, header.max_timestamp)
            header = next(headers, None)
        at = slot * _TIME_ENTRY.size
        if timestamp < before[0] or offset < before[1]:
            yield Finding(walk.partition, path, offset, at, "is below the entry before it")
        elif timestamp != latest:
            problem = f"timestamp {timestamp} is not the latest up to offset {offset}: {latest}"
            yield Finding(walk.partition, path, offset, at, problem)
        before = (timestamp, offset)


def _verify_transaction_index(walk: _Walk, path: Path, base_offset: int) -> Iterator[Finding]:
    try:
        indexed = TransactionIndex(path, REAL_FILES).entries()
    except ValueError as error:
        yield Finding(walk.partition, path, None, None, str(error))
        return
    found = {(entry.producer_id, entry.last_offset): entry for entry in indexed}
    for (producer_id, marker), first in list(walk.aborted.items()):
        if marker < base_offset:
            continue
        entry: AbortedTransaction | None = found.pop((producer_id, marker), None)
        if entry is None:
            problem = f"the aborted transaction of producer {producer_id} since offset {first} is missing"
            yield Finding(walk.partition, path, marker, None, problem)
    for entry in found.values():
        if not base_offset <= entry.last_offset < walk.end_offset:
            problem = f"lists a transaction of producer {entry.producer_id} that did not end in this segment"
            yield Finding(walk.partition, path, entry.last_offset, None, problem)


def _verify_snapshots(walk: _Walk) -> Iterator[Finding]:
    for path in sorted(walk.directory.glob("*" + PRODUCER_SNAPSHOT_SUFFIX)):
        offset = offset_of_file(path.name)
        try:
            entries = snapshot_format.decode(path.read_bytes())
        except snapshot_format.SnapshotCorrupt as error:
            yield Finding(walk.partition, path, offset, None, str(error))
            continue
        for entry in entries:
            if offset is not None and entry.last_offset >= offset:
                problem = f"has offset {entry.last_offset} of producer {entry.producer_id}, which is too high"
                yield Finding(walk.partition, path, offset, None, problem)


def _verify_small_files(walk: _Walk) -> Iterator[Finding]:
    path = walk.directory / leader_epochs.FILE_NAME
    try:
        entries = [(int(epoch), int(start)) for epoch, start in read_entries(path, columns=2)]
        if entries != sorted(entries) or sorted(start for _, start in entries) != [s for _, s in entries]:
            yield Finding(walk.partition, path, None, None, "its epochs are not in order")
    except (CheckpointCorrupt, ValueError) as error:
        yield Finding(walk.partition, path, None, None, str(error))
    path = walk.directory / partition_metadata.FILE_NAME
    try:
        if partition_metadata.read_topic_id(walk.directory) is None:
            yield Finding(walk.partition, path, None, None, "has no topic id", is_damage=path.exists())
    except partition_metadata.PartitionMetadataCorrupt as error:
        yield Finding(walk.partition, path, None, None, str(error))
