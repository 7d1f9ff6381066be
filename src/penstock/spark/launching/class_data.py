"""Class data that JVMs share, so that a driver starts with the classes that an earlier one loaded (JEP 350).

Starting Spark mostly means finding, checking and preparing some twelve thousand classes. The first driver of
each Java and Spark installation records them when it ends; later drivers map the file it wrote. Java ignores
a file that doesn't fit its own build or the jars on the class path, and starts without it.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Final

from penstock.spark.launching.java import Java, cache_directory

_MAGIC: Final = 0xF00BABA8
"""The first bytes of a class data file, in this machine's byte order.

Java writes them last, so an incomplete file lacks them.
"""
_RECORDING_S: Final = 120.0
"""The time for which no other recording starts after one has started; a recording takes seconds."""
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def class_data_options(java: Java, spark_home: Path, cache: Path | None = None) -> str:
    """Return the JVM options that use the recorded class data, or record it. Never raises."""
    try:
        return _options(java, spark_home, cache if cache is not None else cache_directory())
    except OSError:  # no cache, or a read-only one: start without class data
        return ""


def _options(java: Java, spark_home: Path, cache: Path) -> str:
    jars = spark_home / "jars"
    identity = (java.executable.resolve(), java.version, jars.resolve(), jars.stat().st_mtime_ns)
    name = f"classes-{hashlib.sha256(repr(identity).encode()).hexdigest()[:12]}.jsa"
    archive = cache / name
    recordings = list(cache.glob(f"{name}.*"))
    if not archive.exists():
        for recording in recordings:
            if _is_whole(recording):
                recording.replace(archive)
                break
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive} -Xshare:auto {_QUIET}"
    begun = [recording for recording in recordings if recording.stat().st_mtime > time.time() - _RECORDING_S]
    if begun:
        return ""
    cache.mkdir(parents=True, exist_ok=True)
    recording = cache / f"{name}.{os.getpid()}"
    recording.touch()
    return f"-XX:ArchiveClassesAtExit={recording} {_QUIET}"


def _is_whole(recording: Path) -> bool:
    with recording.open("rb") as file:
        return int.from_bytes(file.read(4), "little") == _MAGIC
