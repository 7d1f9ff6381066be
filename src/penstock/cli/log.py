"""`penstock log`: inspect log directories without a node."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from penstock.cli.connection import EXIT_REFUSED, EXIT_USAGE, JsonOutput, fail
from penstock.cli.output import Json, print_error, print_json, print_table
from penstock.cli.records.record_json import bytes_to_json, headers_to_json
from penstock.protocol.batch import CorruptBatch, MalformedRecords
from penstock.protocol.compression import Codec
from penstock.protocol.records import decode_batch
from penstock.storage import inspection
from penstock.storage.disk.files import REAL_FILES
from penstock.storage.names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from penstock.storage.partition import leader_epochs, partition_metadata
from penstock.storage.producers import snapshot_format
from penstock.storage.segments.transaction_index import TransactionIndex

app = typer.Typer(
    help="Dump and verify the files of a log directory. No node has to run.", no_args_is_help=True
)

_DUMPED = (LOG_SUFFIX, *INDEX_SUFFIXES, PRODUCER_SNAPSHOT_SUFFIX)

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH…", help="Log directories, directories of partitions, or files in them."),
]


@app.command()
def verify(
    paths: Paths,
    records: Annotated[bool, typer.Option("--records", help="Also decode every record.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Read all segments, indexes and snapshots and report damage; exit code 1 if there is any.

    Missing offsets are reported, but not as damage: compaction leaves such gaps.
    """
    verified = [
        inspection.verify_partition(directory, decode_records=records)
        for path in paths
        for directory in _partitions(path)
    ]
    findings = [finding for partition in verified for finding in partition.findings]
    damaged = any(finding.is_damage for finding in findings)
    if json_output:
        print_json([_verified_to_json(partition) for partition in verified])
    else:
        print_table(
            ["PARTITION", "START", "END", "SEGMENTS", "BATCHES", "RECORDS", "BYTES", "DAMAGE", "GAPS"],
            [
                (
                    partition.directory.name,
                    partition.start_offset,
                    partition.end_offset,
                    partition.segments,
                    partition.batches,
                    partition.records,
                    partition.size_bytes,
                    sum(finding.is_damage for finding in partition.findings),
                    sum(not finding.is_damage for finding in partition.findings),
                )
                for partition in verified
            ],
        )
        for finding in findings:
            if finding.is_damage:
                print_error(str(finding))
    if damaged:
        raise typer.Exit(EXIT_REFUSED)


def _partitions(path: Path) -> list[Path]:
    try:
        found = inspection.partitions_in(path)
    except OSError as error:
        _cannot_read(path, error)
    if not found:
        fail(f"{path} holds no partition; give a log directory or a partition's directory", EXIT_USAGE)
    return found


def _cannot_read(path: Path, error: OSError) -> NoReturn:
    fail(f"cannot read {path}: {error.strerror}", EXIT_USAGE)


def _verified_to_json(partition: inspection.Verified) -> dict[str, Json]:
    return {
        "partition": partition.directory.name,
        "start_offset": partition.start_offset,
        "end_offset": partition.end_offset,
        "segments": partition.segments,
        "batches": partition.batches,
        "records": partition.records,
        "size_bytes": partition.size_bytes,
        "findings": [
            {
                "file": str(finding.file),
                "offset": finding.offset,
                "byte": finding.position,
                "problem": finding.problem,
                "is_damage": finding.is_damage,
            }
            for finding in partition.findings
        ],
    }


@app.command()
def dump(
    paths: Paths,
    records: Annotated[bool, typer.Option("--records", help="Also show the records of batches.")] = False,
) -> None:
    """Show the contents of segments, indexes, producer snapshots and checkpoints, one line per entry."""
    for path in paths:
        for file in _files(path):
            typer.echo(f"{file}")
            try:
                for line in _lines(file, records=records):
                    typer.echo(f"  {line}")
            except OSError as error:
                _cannot_read(file, error)
            except (CorruptBatch, MalformedRecords, ValueError) as error:
                print_error(f"{file}: {error}")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    known = {leader_epochs.FILE_NAME, partition_metadata.FILE_NAME}
    return [
        file
        for directory in _partitions(path)
        for file in sorted(directory.iterdir())
        if file.name.endswith(_DUMPED) or file.name in known
    ]


def _lines(file: Path, *, records: bool) -> Iterator[str]:
    """Yield the contents of a file. Raises OSError, CorruptBatch, MalformedRecords, ValueError."""
    match file.suffix:
        case suffix if suffix == LOG_SUFFIX:
            yield from _batch_lines(file, records=records)
        case suffix if suffix == OFFSET_INDEX_SUFFIX:
            for offset, position in inspection.offset_entries(file):
                yield f"offset: {offset} position: {position}"
        case suffix if suffix == TIME_INDEX_SUFFIX:
            for timestamp, offset in inspection.time_entries(file):
                yield f"timestamp: {timestamp} offset: {offset}"
        case suffix if suffix == TRANSACTION_INDEX_SUFFIX:
            for aborted in TransactionIndex(file, REAL_FILES).entries():
                yield _fields(aborted._asdict())
        case suffix if suffix == PRODUCER_SNAPSHOT_SUFFIX:
            for entry in snapshot_format.decode(file.read_bytes()):
                yield _fields(entry._asdict())
        case _:
            yield from file.read_text(errors="replace").splitlines()


def _batch_lines(file: Path, *, records: bool) -> Iterator[str]:
    with inspection.mapped(file) as data:
        for batch in inspection.batches(data):
            header = batch.header
            shown = {
                "base_offset": header.base_offset,
                "last_offset": header.last_offset,
                "count": header.count,
                "leader_epoch": header.partition_leader_epoch,
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "transactional": header.is_transactional,
                "control": header.is_control,
                "delete_horizon_ms": header.delete_horizon_ms,
                "position": batch.position,
                "max_timestamp": header.max_timestamp,
                "size": header.size_bytes,
                "magic": header.magic,
                "compression": _codec_name(header.compression),
                "crc": header.crc,
                "valid": batch.damage is None,
            }
            yield _fields(shown)
            if records and batch.damage is None:
                for record in decode_batch(batch.data):
                    text = {**bytes_to_json("key", record.key), **bytes_to_json("value", record.value)}
                    told = f"| offset: {record.offset} timestamp: {record.timestamp} {_fields(text)}"
                    yield f"{told} headers: {headers_to_json(record.headers)}" if record.headers else told
            batch.data.release()


def _codec_name(number: int) -> str:
    try:
        return Codec(number).name.lower()
    except ValueError:
        return str(number)


def _fields(fields: Mapping[str, object]) -> str:
    return " ".join(f"{name}: {value}" for name, value in fields.items())
