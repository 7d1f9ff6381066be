"""Kafka's names of the files and directories in a log directory.

A partition's directory is ``<topic>-<partition>``; one that waits for its removal is
``<topic>-<partition>.<uuid hex>-delete``, with the topic truncated if the name would exceed 255 bytes.
The names of a segment's files begin with its base offset in twenty digits.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Final, NamedTuple

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
PRODUCER_SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"
RAFT_SNAPSHOT_DELETED_SUFFIX: Final = ".checkpoint.deleted"
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)

DELETE_DIRECTORY_SUFFIX: Final = "-delete"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
_LONGEST_NAME_BYTES: Final = 255

_MARKED = re.compile(r"(?P<name>.+)\.[0-9a-f]{32}(?P<mark>-delete|-future|-stray)")
_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class DirectoryName(NamedTuple):
    """The parts of a partition directory's name; `mark` is "", "-delete", "-future" or "-stray"."""

    topic_partition: TopicPartition
    mark: str


def offset_file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_of_file(name: str) -> int | None:
    """The offset that a file name begins with, or None if it begins with none."""
    prefix = name.partition(".")[0]
    return int(prefix) if prefix.isascii() and prefix.isdigit() else None


def parse_directory_name(name: str) -> DirectoryName | None:
    """Parse the name of a partition's directory; None if the name is not of that form."""
    mark = ""
    if marked := _MARKED.fullmatch(name):
        name, mark = marked["name"], marked["mark"]
    parsed = _PARTITION.fullmatch(name)
    if parsed is None:
        return None
    return DirectoryName(TopicPartition(parsed["topic"], int(parsed["partition"])), mark)


def marked_directory_name(topic_partition: TopicPartition, mark: str, unique: uuid.UUID | None = None) -> str:
    """Make a unique name for a partition's directory that is no longer served: deleted, or a stray."""
    unique = unique or uuid.uuid4()
    suffix = f"-{topic_partition.partition}.{unique.hex}{mark}"
    return topic_partition.topic[: _LONGEST_NAME_BYTES - len(suffix)] + suffix


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    return directory / offset_file_name(base_offset, suffix)
