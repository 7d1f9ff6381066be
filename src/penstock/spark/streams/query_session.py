"""The Spark session that an application's query runs in: its settings, and how sources are found in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.sink.locations import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Of the application's own session; what the caller's session has is left alone.
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The names of state files tell the attempts that wrote them, and the commit log which one counts. By
    # default what a killed attempt has left may be taken for what the attempt that was kept has written.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # Time passes by the offsets of the source, never by batches without data.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1",
}
_LOCAL_SETTINGS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def prepare_session(session: SparkSession, shuffle_partitions: int) -> None:
    """The settings that a query needs. `checkpoint_option` has more."""
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", str(shuffle_partitions))


def checkpoint_option(session: SparkSession, where: Location) -> str:
    """What a query's option ``checkpointLocation`` has to be; the session is set to write there."""
    if not where.is_local:
        return where.uri
    for name, value in _LOCAL_SETTINGS.items():
        session.conf.set(name, value)
    return f"file:{where.path}"  # Spark takes a bare path as one of the cluster's default file system


def tasks_max(session: SparkSession) -> int:
    """Behind the shuffle, where nothing else is said."""
    return min(
        session.sparkContext.defaultParallelism, int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    )


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """The thread's active session is this one meanwhile.

    Spark looks for a sink in the active session, whatever session the query is of, and refuses to register a
    source that the active session knows, whatever session it is for.
    """
    from pyspark.sql import SparkSession

    sessions: Any = SparkSession._get_j_spark_session_class(session._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
