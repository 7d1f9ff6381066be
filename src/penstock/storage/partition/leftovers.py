"""Removes the files that interrupted operations left in a partition's directory."""

from __future__ import annotations

import logging
from pathlib import Path

from penstock.storage.disk.files import FileSystem
from penstock.storage.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    RAFT_SNAPSHOT_DELETED_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    offset_of_file,
)
from penstock.storage.segments.scan import headers as scan_headers
from penstock.storage.segments.segment_file import SegmentFile

log = logging.getLogger(__name__)


def remove_leftovers(directory: Path, files: FileSystem) -> None:
    """Remove files left by interrupted deletions, cleans and replacements; complete interrupted swaps.

    A `.swap` segment replaces the segments in its range of offsets (compaction). A `.cleaned` segment at or
    below it means that the clean had not completed that swap. KRaft's `.checkpoint.deleted` files stay,
    because they do not belong to logs.
    """
    names = [path.name for path in directory.iterdir()]
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    first_cleaned = min(
        (offset for name in cleaned if (offset := offset_of_file(name)) is not None), default=None
    )
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    stray_swaps = [
        name for name in swaps if first_cleaned is not None and (offset_of_file(name) or 0) >= first_cleaned
    ]
    deleted = [
        name
        for name in names
        if name.endswith(DELETED_SUFFIX) and not name.endswith(RAFT_SNAPSHOT_DELETED_SUFFIX)
    ]
    unfinished = [name for name in names if name.endswith(TEMPORARY_SUFFIX)]
    for name in (*deleted, *cleaned, *stray_swaps, *unfinished):
        log.info("removing a file left by an interrupted operation file=%s", directory / name)
        files.remove_if_exists(directory / name)
    _complete_swaps(directory, sorted(set(swaps) - set(stray_swaps)), files)


def _complete_swaps(directory: Path, swaps: list[str], files: FileSystem) -> None:
    """Remove the segments that `.swap` segments replace, then give those their final names."""
    segments = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if segments:
        first = min(offset_of_file(name) or 0 for name in segments)
        end = max(_end_of_swap(directory / name, files) for name in segments)
        for path in directory.iterdir():
            offset = offset_of_file(path.name)
            if offset is not None and first <= offset < end and path.name.endswith(SEGMENT_SUFFIXES):
                log.info("removing a file replaced by an interrupted clean file=%s", path)
                files.remove_if_exists(path)
    for name in swaps:
        files.rename(directory / name, directory / name.removesuffix(SWAP_SUFFIX))


def _end_of_swap(path: Path, files: FileSystem) -> int:
    """The offset after the last batch of a swapped segment, read from its headers."""
    end = offset_of_file(path.name) or 0
    for _, header in scan_headers(SegmentFile(path, files), 0, path.stat().st_size):
        end = header.next_offset
    return end
