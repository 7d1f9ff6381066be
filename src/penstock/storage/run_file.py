"""`.penstock_run`: whether what the last process wrote here can be lost (KIP-966).

A broker that did not stop cleanly may have lost what it had not synced, and is no eligible leader any more.
But only machines lose that, not processes: the kernel keeps what was written. So each log directory says
which processes have written to it since it was known to be whole, and on what it lay then: the file's own
identity (`file_identity`). If that is the same at the next start, nothing was lost in between.

A process is named by its incarnation id, and enters itself before it registers. So whoever is killed, at
whatever time, finds at the next start the incarnation that the cluster knows among those in the file. An
Apache Kafka node that has run in between is not among them, and passes over the file, as over all that it
doesn't know. The file is never synced: it says nothing to another run of the kernel.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from penstock.storage.files import FileSystem
from penstock.storage.names import TEMPORARY_SUFFIX

FILE_NAME: Final = ".penstock_run"
_VERSION: Final = 0


def read(directory: Path, files: FileSystem) -> tuple[bytes, ...]:
    """The incarnations whose writes are all in `directory` still; none where that isn't sure."""
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
    """From now on these are whole; whether the system can tell. Raises OSError."""
    path = directory / FILE_NAME
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    files.remove_if_exists(temporary)  # a file of its own, with an identity of its own
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
    """Something was lost, or may be. Raises OSError where the file can neither be removed nor made void."""
    path = directory / FILE_NAME
    try:
        files.remove_if_exists(path)
    except OSError:
        fd = files.open(path, os.O_WRONLY)
        try:
            files.write_all(fd, b"void", 0)
        finally:
            files.close(fd)
