"""Spark's log in sessions that `build_session` builds: a line on stderr, the trace in a file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.spark.launching import logs
from penstock.spark.launching.logs import log4j_options, new_log
from penstock.testing import Cluster

QUERIES = """
import sys
from penstock.spark import build_session

spark = build_session("my orders", "local[1]", profile="quick", share_classes=True)

def start(topic, checkpoint, condition="true"):
    options = {"bootstrap.servers": sys.argv[1], "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("penstock").options(**options).load().where(condition)
    return rows.writeStream.format("noop").option("checkpointLocation", checkpoint).start()

good = start(sys.argv[2], "good")
good.processAllAvailable()
good.stop()
# The first batch takes a minute: Spark sleeps for 10 ms in each row.
stopped = start(sys.argv[2], "stopped", "reflect('java.lang.Thread', 'sleep', 10L) is not null")
while not spark.sparkContext.statusTracker().getActiveStageIds():
    assert stopped.isActive
stopped.stop()
assert not stopped.recentProgress
failing = start("nowhere", "failing")
try:
    failing.awaitTermination()
except Exception:
    pass
spark.stop()
"""


@pytest.mark.spark
def test_a_failed_query_is_one_line_that_names_the_trace(penstock_cluster: Cluster, tmp_path: Path) -> None:
    """Queries that end, or that are stopped in the middle of a batch, leave no line."""
    servers = penstock_cluster.bootstrap_servers
    create = [sys.executable, "-m", "penstock", "topic", "create", "session-log", "--bootstrap", servers]
    subprocess.run(create, check=True, capture_output=True)
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(6_000):
        producer.produce("session-log", b"x" * 1_000)
    assert producer.flush(60) == 0
    done = subprocess.run(
        [sys.executable, "-c", QUERIES, servers, "session-log"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    said = re.fullmatch(r".* ERROR MicroBatchExecution: (.*) \(the trace is in (.*)\)\n", done.stderr)
    assert said is not None, done.stderr
    cause = f"UnknownPartition: topic 'nowhere' does not exist in the cluster at {servers}"
    assert said[1].endswith(f"terminated with error: penstock.client.errors.{cause}")
    log = Path(said[2])
    assert log.parent == tmp_path
    assert log.name.startswith("penstock-my-orders-")
    assert "Traceback (most recent call last)" in log.read_text()


def test_a_log_that_stays_empty_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs.tempfile, "tempdir", str(tmp_path))
    kept, empty = new_log("a"), new_log("a")
    kept.write_text("something")
    for log in (kept, empty):
        logs._remove_if_empty(log)
        logs._remove_if_empty(log)  # it may be gone already
    assert list(tmp_path.iterdir()) == [kept]


def test_with_a_log_file_of_its_own_a_session_writes_everything_to_stderr() -> None:
    assert "log4j2.properties -Dpenstock.log.level=warn" in log4j_options("warn", None)
    assert log4j_options("warn", Path("/tmp/x.log")).endswith("-Dpenstock.log.file=/tmp/x.log")
