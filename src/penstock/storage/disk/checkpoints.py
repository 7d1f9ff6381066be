"""Reads and writes Kafka's checkpoint files: a version, a count, then one line per entry.

A write replaces the whole file and is durable. The offset checkpoints are at the top of each log directory;
their lines are `topic partition offset`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from penstock.storage.disk.files import FileSystem
from penstock.storage.names import TopicPartition

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"
_VERSION: Final = 0


class CheckpointCorrupt(ValueError):
    """A checkpoint file is not in Kafka's format; the message names the file and the problem."""


def read_entries(path: Path, *, columns: int) -> list[list[str]]:
    """Read the fields of each entry. Raises CheckpointCorrupt.

    Returns no entries if the file does not exist, or is empty as Kafka creates it.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CheckpointCorrupt(f"{path}: {error}") from None
    if not lines:
        return []
    try:
        version, count = int(lines[0]), int(lines[1])
    except (IndexError, ValueError):
        raise CheckpointCorrupt(f"{path}: expected a version and a count, found {lines[:2]}") from None
    if version != _VERSION:
        raise CheckpointCorrupt(f"{path}: expected version {_VERSION}, found {version}")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != count:
        raise CheckpointCorrupt(f"{path}: expected {count} entries, found {len(entries)}")
    for entry in entries:
        if len(entry) != columns:
            raise CheckpointCorrupt(f"{path}: expected {columns} fields, found {' '.join(entry)!r}")
    return entries


def write_entries(files: FileSystem, path: Path, entries: Iterable[Iterable[object]]) -> None:
    lines = [" ".join(map(str, entry)) for entry in entries]
    text = "\n".join([str(_VERSION), str(len(lines)), *lines]) + "\n"
    files.write_atomically(path, text.encode())


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Read an offset checkpoint; empty if the file does not exist. Raises CheckpointCorrupt."""
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in read_entries(path, columns=3)
        }
    except CheckpointCorrupt:
        raise
    except ValueError as error:
        raise CheckpointCorrupt(f"{path}: {error}") from None


def write_offsets(files: FileSystem, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    write_entries(files, path, [(*topic_partition, offset) for topic_partition, offset in offsets.items()])
