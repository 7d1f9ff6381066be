"""A Spark session with the settings that streams over Penstock want, on a Java found by itself.

    from penstock.spark.session import build_session

    spark = build_session("orders")
    spark.readStream.format("penstock").option("bootstrap.servers", "127.0.0.1:9092")...

It is an ordinary `SparkSession`: nothing in a query depends on having been built here, and the same query
runs in a session of your own on any cluster.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from penstock.spark.java import find_java, launch_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Profile = Literal["quick", "steady"]

SETTINGS: dict[str, str] = {
    # One meaning of event time, whatever the machine's zone.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Between the JVM and its Python workers: TCP on loopback stalls 40 ms on small batches.
    "spark.python.unix.domain.socket.enabled": "true",
    # State larger than the heap, and per batch only what changed is written to the checkpoint.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

LOCAL_SETTINGS: dict[str, str] = {
    # The default manager forks a process for each file it renames on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

JVM_OPTIONS: dict[Profile, str] = {
    # C1 alone: a session starts and answers its first query in about two thirds of the time. From half a
    # minute of steady work on, the second compiler has earned its start-up back.
    "quick": "-XX:TieredStopAtLevel=1",
    "steady": "",
}

# Each shuffle partition of a stateful operator costs a task and a state commit per batch, so on one machine
# there are no more of them than this, however many cores. A checkpoint keeps the number it was made with.
LOCAL_SHUFFLE_PARTITIONS_MAX = 8


def build_session(
    app_name: str,
    master: str = "local[*]",
    extra_conf: Mapping[str, str] | None = None,
    profile: Profile = "steady",
    log_level: str = "error",
    log_file: Path | None = None,
) -> SparkSession:
    """Return the active session, or a new one on `master` with Penstock's settings under `extra_conf`.

    `profile` is "steady" for queries that stay, "quick" for tests and jobs of a few seconds. `log_level`
    is log4j's name for what Spark prints on stderr; with `log_file` it is appended to that file, and so is
    what the Python workers print. Raises `JavaNotFound` if no Java fits. A session that is already active
    is returned with the settings that can still change; those of its JVM stay.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in _settings(master, profile, log_level, extra_conf or {}).items():
        builder = builder.config(key, value)
    if SparkSession.getActiveSession() is not None:
        return builder.getOrCreate()
    launch = {"JAVA_HOME": str(launch_home(find_java()))}
    if log_file is not None:
        launch["PENSTOCK_SPARK_LOG"] = str(log_file.absolute())
    with _environment(launch):
        return builder.getOrCreate()


def _settings(master: str, profile: Profile, log_level: str, extra_conf: Mapping[str, str]) -> dict[str, str]:
    settings = dict(SETTINGS)
    if master.startswith("local"):
        settings |= LOCAL_SETTINGS
        settings["spark.sql.shuffle.partitions"] = str(min(os.cpu_count() or 1, LOCAL_SHUFFLE_PARTITIONS_MAX))
    settings |= extra_conf
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    jvm_options = (
        settings.get("spark.driver.extraJavaOptions", ""),
        JVM_OPTIONS[profile],
        f"-Dlog4j2.configurationFile={log4j} -Dpenstock.log.level={log_level}",
    )
    settings["spark.driver.extraJavaOptions"] = " ".join(filter(None, jvm_options))
    return settings


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the block only: the JVM inherits them, the caller keeps its own."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
