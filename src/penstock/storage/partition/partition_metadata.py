"""Reads and writes `partition.metadata`, which holds the topic id of a partition's directory (KIP-516)."""

from __future__ import annotations

import base64
import binascii
import logging
import re
from pathlib import Path
from typing import Final

from penstock.storage.disk.files import FileSystem
from penstock.storage.names import TEMPORARY_SUFFIX

log = logging.getLogger(__name__)

FILE_NAME: Final = "partition.metadata"
_CONTENT = re.compile(r"version: (?P<version>\d+)\ntopic_id: (?P<topic_id>[A-Za-z0-9_-]{22})\n?")
_VERSION: Final = 0
_SHORTEST: Final = len("version: 0\ntopic_id: ") + 22


class PartitionMetadataCorrupt(ValueError):
    """The file does not consist of a known version and a topic id."""


def read_topic_id(directory: Path) -> bytes | None:
    """Read the 16 bytes of the topic id. Raises PartitionMetadataCorrupt.

    Returns None if the file does not exist, or is incomplete because the machine failed before a sync.
    """
    path = directory / FILE_NAME
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    if "\0" in text or len(text) < _SHORTEST:
        return None
    parsed = _CONTENT.fullmatch(text)
    if parsed is None or int(parsed["version"]) != _VERSION:
        raise PartitionMetadataCorrupt(f"{path}: expected version 0 and a topic id, found {text!r}")
    try:
        return base64.urlsafe_b64decode(parsed["topic_id"] + "==")
    except binascii.Error as error:
        raise PartitionMetadataCorrupt(f"{path}: {error}") from None


def topic_id_or_none(directory: Path) -> bytes | None:
    """Read the topic id, but treat a damaged file as missing: the next assignment of an id rewrites it."""
    try:
        return read_topic_id(directory)
    except PartitionMetadataCorrupt as error:
        log.error("damaged file skipped error=%s", error)
        return None


def write_topic_id(files: FileSystem, directory: Path, topic_id: bytes) -> Path:
    """Write the file, completely or, if the process dies, not at all. The caller syncs the returned path."""
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    temporary = directory / f"{FILE_NAME}{TEMPORARY_SUFFIX}"
    files.write_file(temporary, f"version: {_VERSION}\ntopic_id: {text}".encode(), sync=False)
    path = directory / FILE_NAME
    files.rename(temporary, path)
    return path
