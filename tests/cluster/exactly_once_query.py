"""The queries that test_kill_exactly_once kills; they write to two topics in one transaction per batch.

    python -c "import exactly_once_query; exactly_once_query.main()" SERVERS CHECKPOINT CONTROL MASTER SHAPE

Records are "key number". In the shape `stateful` they are shuffled, and each comes out as "key number count",
where `count` is the number of earlier records of the key according to the state. An output is right if number
and count agree and rise by one. In the shape `map` there is no shuffle, and each comes out as "key number
offset". In the shape `streams` an application of `penstock.streams` runs instead (`exactly_once_app`). A
query that fails is restarted in the same process. Each event is reported on a line of standard output.

A file `strike` in the directory CONTROL makes the next task that is about to stage kill its executor, or lets
the test kill another process; the task writes its process id to `struck`. A file `stay-down` keeps the driver
from restarting. Each settled batch adds a line "batch outcome" to `outcomes`.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StructType

from penstock.spark.datasource import PenstockDataSource
from penstock.spark.launching.class_data import class_data_options
from penstock.spark.launching.java import find_java
from penstock.spark.launching.logs import log4j_options
from penstock.spark.launching.session import LOCAL_SETTINGS, build_session
from penstock.spark.sink.exactly_once import ExactlyOnceStreamWriter
from penstock.spark.sink.marker import Marker
from penstock.spark.sink.options import parse_sink
from penstock.spark.sink.publisher import Outcome, Publication, Publisher

SOURCE: Final = "in"
TOPICS: Final = ("out-a", "out-b")
GROUP: Final = "killed-query"
SINK_CLIENT: Final = "sink"
TRANSACTION_TIMEOUT_MS: Final = 12_000
PATIENCE: Final = "PENSTOCK_TEST_PATIENCE_MS"
"""The environment variable for the timeout of the query's clients, in ms."""
CONTROL: Final = "PENSTOCK_TEST_CONTROL"
"""The environment variable that passes CONTROL to the processes that Spark starts."""
NO_MARKER_CHECK: Final = "PENSTOCK_TEST_NO_MARKER_CHECK"
"""If this environment variable is set, the sink does not check whether a batch was already published."""

SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.sql.streaming.checkpointFileManagerClass": LOCAL_SETTINGS[
        "spark.sql.streaming.checkpointFileManagerClass"
    ],
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "20",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.4",
    "spark.speculation.minTaskRuntime": "400ms",
}


class TellingPublisher(Publisher):
    """A publisher that reports how each batch was settled."""

    def publish(self, batch: Publication) -> Outcome:
        outcome = super().publish(batch)
        with (Path(os.environ[CONTROL]) / "outcomes").open("a") as file:
            file.write(f"{batch.batch_id} {outcome.name}\n")
        return outcome


class ForgetfulPublisher(TellingPublisher):
    def _was_published(self, marker: Marker | None, batch: Publication) -> bool:
        return False


class Watched(ExactlyOnceStreamWriter):
    """A writer with a low limit for inline reports, so that some tasks stage and others don't."""

    inline_bytes = 2_000
    publisher_type = ForgetfulPublisher if NO_MARKER_CHECK in os.environ else TellingPublisher

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(in_danger(iterator))


class KilledDataSource(PenstockDataSource):
    """``format("killed")``: penstock with the writer above."""

    @classmethod
    def name(cls) -> str:
        return "killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        writer = Watched(parse_sink(self.options), schema)
        writer.recover()
        return writer


def start(session: SparkSession, servers: str, checkpoint: str, shape: str) -> StreamingQuery:
    patience_ms = os.environ[PATIENCE]
    patience = {
        "kafka.default.api.timeout.ms": patience_ms,
        "kafka.request.timeout.ms": patience_ms,
        "kafka.bootstrap.servers": servers,
    }
    rows = (
        session.readStream.format("killed")
        .options(**patience, subscribe=SOURCE, startingOffsets="earliest", maxOffsetsPerTrigger="2000")
        .option("group.id", GROUP)
        .load()
        .selectExpr(
            "cast(key AS string) key",
            "cast(value AS string) value",
            "timestamp",
            "topic",
            "partition",
            "offset",
        )
    )
    return (
        (numbered(rows) if shape == "stateful" else mapped(rows))
        .writeStream.format("killed")
        .options(**patience, delivery="exactly-once", checkpointLocation=checkpoint)
        .options(**{"kafka.client.id": SINK_CLIENT, "kafka.delivery.timeout.ms": patience_ms})
        .option("kafka.transaction.timeout.ms", str(TRANSACTION_TIMEOUT_MS))
        .start()
    )


def numbered(rows: DataFrame) -> DataFrame:
    def count(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        sorted_rows = pd.concat(list(frames)).sort_values(["timestamp", "topic", "partition", "offset"])
        before: int = state.get[0] if state.exists else 0
        state.update((before + len(sorted_rows),))
        values = [f"{value} {before + i}" for i, value in enumerate(sorted_rows["value"])]
        yield pd.DataFrame({"topic": TOPICS[int(key[0]) % 2], "key": key[0], "value": values})

    return rows.groupBy("key").applyInPandasWithState(
        count,
        "topic string, key string, value string",
        "before long",
        "append",
        GroupStateTimeout.NoTimeout,
    )


def mapped(rows: DataFrame) -> DataFrame:
    topic = f"if(cast(key AS int) % 2 = 0, '{TOPICS[0]}', '{TOPICS[1]}') topic"
    return rows.selectExpr(topic, "key", "concat_ws(' ', value, offset) value")


def in_danger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass the rows on, with a chance to be killed before the task stages them."""
    for batch in batches:
        hesitate()
        strike_if_asked(Path(os.environ[CONTROL]))
        yield batch


def hesitate() -> None:
    """Delay some first attempts, so that Spark starts a speculative copy."""
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0 and random.random() < 0.02:
        time.sleep(1.0)


def strike_if_asked(control: Path) -> None:
    """The task that finds the file kills its executor, or lets the test kill another process or stop it."""
    strike = control / "strike"
    try:
        victim = strike.read_text()
        strike.unlink()
    except FileNotFoundError:
        return
    answer = control / "answer"
    answer.write_text(str(os.getpid()))
    answer.rename(control / "struck")
    if victim == "executor":
        os.kill(executor_of(os.getpid()), signal.SIGKILL)
    time.sleep(1.0)


def executor_of(pid: int) -> int:
    """The Java process above a Python worker."""
    while b"java" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def executor_options() -> str:
    """Options for a fast start of executors: no logging, and the drivers' class data archive if it exists."""
    options = ["-XX:+UseSerialGC", log4j_options("off", None)]
    shared = class_data_options(find_java(), Path(pyspark.__file__).parent)
    return " ".join([*options, shared] if "-Xshare:auto" in shared else options)


def say(*words: Any) -> None:
    print(*words, flush=True)


def main() -> None:
    servers, checkpoint, control, master, shape = sys.argv[1:]
    environment = {f"spark.executorEnv.{name}": os.environ[name] for name in (CONTROL, "PYTHONPATH")}
    settings = SETTINGS | environment | {"spark.executor.extraJavaOptions": executor_options()}
    session = build_session(
        "killed", master, settings, profile="quick", log_level="off", ship=False, share_classes=True
    )
    say("application", session.sparkContext.applicationId)
    session.dataSource.register(KilledDataSource)
    while not (Path(control) / "stay-down").exists():
        try:
            if shape == "streams":
                import exactly_once_app

                app = exactly_once_app.start(session, servers, checkpoint)
                say("started", app.query.runId)
                app.query.awaitTermination()
            else:
                query = start(session, servers, checkpoint, shape)
                say("started", query.runId)
                query.awaitTermination()
        except Exception as error:
            text = " ".join(str(error).split())
            say("fenced" if "RunFenced" in text else "failed", text[:4000])
            time.sleep(0.2)
