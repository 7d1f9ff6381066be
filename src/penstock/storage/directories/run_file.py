"""Keeps `.penstock_run`, which shows whether writes of earlier processes may have been lost (KIP-966).

A broker that did not stop cleanly may have lost unsynced data, and is then no longer eligible as a leader.
But only a failure of the machine loses such data; if just the process dies, the kernel keeps it. So each log
directory records the processes that have written to it since it was known to be complete, and the identity of
the record's own file (`file_identity`). If the identity is unchanged at the next start, nothing was lost.

The record contains incarnation ids. A process adds its own before it registers with the cluster. So whenever
it is killed, the next start finds the incarnation that the cluster knows in the file. An Apache Kafka node
that has run in between is not in the file, as it ignores files that it does not know. The file is never
synced, because it is meaningless in another run of the kernel.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from penstock.storage.disk.files import FileSystem
from penstock.storage.names import TEMPORARY_SUFFIX

FILE_NAME: Final = ".penstock_run"
_VERSION: Final = 0


def read(directory: Path, files: FileSystem) -> tuple[bytes, ...]:
    """The incarnations whose writes are all still in `directory`; empty if that is not certain."""
    try:
        fd = files.open(directory / FILE_NAME, os.O_RDONLY)
    except OSError:
        return ()
    try:
        identity = files.identity(fd)
        content = json.loads(files.pread(fd, os.fstat(fd).st_size, 0))
        if identity is None or content["version"] != _VERSION or content["identity"] != identity:
            return ()
        return tuple(bytes.fromhex(incarnation) for incarnation in content["incarnations"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    finally:
        files.close(fd)


def write(directory: Path, files: FileSystem, incarnations: tuple[bytes, ...]) -> bool:
    """Record the incarnations whose writes are all here. Raises OSError.

    Returns False, and leaves no file, if the system provides no file identity.
    """
    path = directory / FILE_NAME
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    files.remove_if_exists(temporary)  # so that a new file with a new identity is created
    fd = files.open(temporary, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        identity = files.identity(fd)
        if identity is not None:
            content = {
                "version": _VERSION,
                "identity": identity,
                "incarnations": [incarnation.hex() for incarnation in incarnations],
            }
            files.write_all(fd, json.dumps(content).encode(), 0)
    finally:
        files.close(fd)
    if identity is None:
        files.unlink(temporary)
        remove(directory, files)
        return False
    files.rename(temporary, path)
    return True


def remove(directory: Path, files: FileSystem) -> None:
    """Remove the file, or void it, because writes may be lost. Raises OSError if neither succeeds."""
    path = directory / FILE_NAME
    try:
        files.remove_if_exists(path)
    except OSError:
        fd = files.open(path, os.O_WRONLY)
        try:
            files.write_all(fd, b"void", 0)
        finally:
            files.close(fd)
