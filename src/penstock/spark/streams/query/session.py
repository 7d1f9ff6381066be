"""The Spark session of an application's query: its settings, and how Spark finds sources in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.sink.locations import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # State files are named after the attempts that wrote them, and the commit log says which one counts. By
    # default, files that a killed attempt left behind may be mistaken for those of the successful one.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # The source's offsets advance the time, never batches without data.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1",
}
"""The settings of the application's own session; the caller's session is not changed."""
_LOCAL_SETTINGS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def prepare_session(session: SparkSession, shuffle_partitions: int) -> None:
    """Apply the settings that a query needs; `checkpoint_option` applies more."""
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", str(shuffle_partitions))


def checkpoint_option(session: SparkSession, where: Location) -> str:
    """Return a query's option ``checkpointLocation``, and prepare the session to write there."""
    if not where.is_local:
        return where.uri
    for name, value in _LOCAL_SETTINGS.items():
        session.conf.set(name, value)
    return f"file:{where.path}"  # Spark looks up a bare path in the cluster's default file system


def tasks_max(session: SparkSession) -> int:
    """The default number of tasks behind the shuffle."""
    return min(
        session.sparkContext.defaultParallelism, int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    )


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make this session the thread's active one during the block.

    Spark looks up a sink in the active session, whatever session the query belongs to. It also refuses to
    register a source that the active session knows, whatever session it is for.
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
