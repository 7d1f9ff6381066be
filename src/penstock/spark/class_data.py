"""Class data that JVMs share: a driver begins with the classes that an earlier one has loaded (JEP 350).

Starting Spark is for the most part finding, checking and preparing some twelve thousand classes. The first
driver of a Java and a Spark records them when it ends; those that come later map the file that it leaves.
Java takes no file that doesn't fit its own build or the jars on the class path, and goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Final

from penstock.spark.java import Java, cache_directory

#: How the file begins, in this machine's byte order. It is written last, so a part of a file lacks it.
_MAGIC: Final = 0xF00BABA8
#: A recording takes seconds; while one may be going on, no other is begun.
_RECORDING_S: Final = 120.0
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def class_data_options(java: Java, spark_home: Path, cache: Path | None = None) -> str:
    """Options for a JVM that runs Spark: to use the file that is there, or to record one. Never raises."""
    try:
        return _options(java, spark_home, cache if cache is not None else cache_directory())
    except OSError:  # no cache, or one that can't be written: then without
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
