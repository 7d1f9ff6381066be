"""Reports on queries, fed with Spark's progress: metrics as Prometheus reads them, and the console."""

import contextlib
import io
import json
import ssl
import threading
import urllib.request
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from certificates import Authority
from penstock.client.settings import ConfigError
from penstock.security.access.errors import InvalidAccess
from penstock.spark import read_progress
from penstock.spark.observing import MetricsEndpoint, MetricsPortTaken, ProgressView, QueryMetrics
from penstock.spark.observing.console import batch_line, size
from penstock.spark.observing.query_metrics import BUCKETS_S
from penstock.spark.sink.staged import TaskStaged
from penstock.spark.sink.writer import TaskWritten
from penstock.spark.streams.query.counting import (
    DeadLetterCount,
    DroppedCount,
    StagedWithCounts,
    WrittenWithCounts,
)


def report(batch=0, *, name="orders", run="run-1", ms=250, rows=100, start=0, behind=0, query="query-1"):
    """A progress report as Spark gives it, of one source with two partitions and one stateful operator."""
    ends = {"0": start + rows // 2, "1": start + rows // 2}
    return {
        "id": query,
        "runId": run,
        "name": name,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"addBatch": ms - 50, "latestOffset": 2, "triggerExecution": ms},
        "stateOperators": [
            {
                "operatorName": "stateStoreSave",
                "numRowsTotal": 40,
                "numRowsDroppedByWatermark": 3,
                "memoryUsedBytes": 1000,
                "customMetrics": {"rocksdbSstFileSize": 234},
            },
            {"operatorName": "dedupe", "numRowsTotal": 2, "memoryUsedBytes": 66},
        ],
        "sources": [
            {
                "description": "PythonMicroBatchStream",
                "startOffset": {"orders": {"0": start, "1": start}},
                "endOffset": {"orders": ends},
                "latestOffset": {"orders": {"0": ends["0"] + behind, "1": ends["1"]}},
                "numInputRows": rows,
            },
            {"description": "RateStream", "startOffset": 3, "endOffset": 5, "numInputRows": 0},
        ],
        "sink": {"description": "noop", "numOutputRows": -1},
    }


def test_the_progress_of_a_batch():
    progress = read_progress(json.dumps(report(7, behind=12)))
    assert (progress.query_id, progress.run_id, progress.name) == ("query-1", "run-1", "orders")
    assert (progress.batch_id, progress.records, progress.batch_ms) == (7, 100, 250)
    assert progress.records_per_second == 400
    assert (progress.state_rows, progress.state_bytes, progress.late_rows) == (42, 1300, 3)
    assert progress.lag.partitions == {("orders", 0): 12, ("orders", 1): 0}
    assert progress.phases_ms == {"addBatch": 200, "latestOffset": 2}


def test_records_of_an_application_are_counted_by_offsets_as_spark_sees_blocks():
    given = report(rows=100, start=10)
    given["sources"][0]["numInputRows"] = 4
    given["sources"][0]["endOffset"]["@clock"] = {"ms": 5}
    given["sources"][0]["endOffset"]["new-topic"] = {"0": 7}
    assert read_progress(given).records == 100, "where it began is not known of the new topic"
    assert read_progress(given).lag.total == 0


def test_records_of_a_host_are_those_of_members_that_went_on():
    def member(offset, starts=1):
        return {"starts": starts, "at": {"orders": {"0": offset}, "@clock": {"ms": 5}}}

    given = report(rows=100)
    given["sources"][0]["startOffset"] = {"@members": {"1": member(10), "2": member(10), "3": member(10)}}
    ends = {"1": member(15), "2": member(12), "3": member(19, starts=2), "4": member(30)}
    given["sources"][0]["endOffset"] = {"@members": ends, "host_start": {"id": "5d0c"}}
    assert read_progress(given).records == 7, "member 3 failed in between, and member 4 is new"
    given["sources"][0]["startOffset"] = None
    assert read_progress(given).records == 0


def test_what_is_no_progress_is_told():
    with pytest.raises(ConfigError, match="expected the progress of a streaming query"):
        read_progress("{}")


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def metrics():
    return QueryMetrics(Clock())


def samples(metrics):
    """The samples of a scrape: {(name, query, *other labels by their names): value}."""
    registry = CollectorRegistry()
    registry.register(metrics)
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            others = [value for label, value in sorted(sample.labels.items()) if label != "query"]
            key = (sample.name, sample.labels["query"], *others)
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def test_counters_add_up_and_gauges_are_those_of_the_last_batch(metrics):
    metrics.started("query-1", "run-1", "orders")
    metrics.progressed(read_progress(report(0, ms=250, behind=900)))
    metrics.progressed(read_progress(report(1, ms=40, rows=60, start=50, behind=30)))
    found = samples(metrics)
    assert found["penstock_query_active", "orders"] == 1
    assert found["penstock_query_info", "orders", "query-1", "run-1"] == 1
    assert found["penstock_query_records_total", "orders"] == 160
    assert found["penstock_query_late_rows_total", "orders"] == 6
    assert found["penstock_query_records_per_second", "orders"] == 1500
    assert found["penstock_query_last_batch", "orders"] == 1
    assert found["penstock_query_last_batch_timestamp_seconds", "orders"] == 1000
    assert found["penstock_query_state_rows", "orders"] == 42
    assert found["penstock_query_state_bytes", "orders"] == 1300
    assert found["penstock_query_phase_seconds_total", "orders", "latestOffset"] == pytest.approx(0.004)
    assert found["penstock_query_lag", "orders", "0", "orders"] == 30
    assert found["penstock_query_lag", "orders", "1", "orders"] == 0


def test_times_of_batches_are_a_histogram(metrics):
    for batch, ms in enumerate((25, 26, 260, 400_000)):
        metrics.progressed(read_progress(report(batch, ms=ms)))
    found = samples(metrics)
    counts = [found["penstock_query_batch_seconds_bucket", "orders", str(most)] for most in BUCKETS_S]
    assert counts[:5] == [1, 2, 2, 2, 3]
    assert counts == sorted(counts)
    assert counts[-1] == 3
    assert found["penstock_query_batch_seconds_bucket", "orders", "+Inf"] == 4
    assert found["penstock_query_batch_seconds_count", "orders"] == 4
    assert found["penstock_query_batch_seconds_sum", "orders"] == pytest.approx(400.311)


def test_starts_ends_and_failures(metrics):
    metrics.started("query-1", "run-1", "orders")
    metrics.progressed(read_progress(report(0)))
    metrics.ended("query-1", "run-1", "the sink is down")
    found = samples(metrics)
    assert found["penstock_query_active", "orders"] == 0
    assert found["penstock_query_failures_total", "orders"] == 1
    assert found["penstock_query_restarts_total", "orders"] == 0
    metrics.started("query-1", "run-2", "orders")
    metrics.ended("query-1", "run-1", None)  # a late report
    found = samples(metrics)
    assert found["penstock_query_active", "orders"] == 1
    assert found["penstock_query_restarts_total", "orders"] == 1
    metrics.ended("query-1", "run-2", None)
    found = samples(metrics)
    assert found["penstock_query_active", "orders"] == 0
    assert found["penstock_query_failures_total", "orders"] == 1
    assert found["penstock_query_info", "orders", "query-1", "run-2"] == 1
    assert ("penstock_query_info", "orders", "query-1", "run-1") not in found


def test_who_stops_a_query_can_wait_for_its_last_report(metrics):
    assert metrics.wait_for_end("run-1", 0), "of a run that is not known there is nothing to wait for"
    metrics.started("query-1", "run-1", "orders")
    assert not metrics.wait_for_end("run-1", 0.01)
    timer = threading.Timer(0.05, metrics.ended, ("query-1", "run-1", None))
    timer.start()
    assert metrics.wait_for_end("run-1", 30)


def test_an_idle_query_has_no_rate(metrics):
    metrics.progressed(read_progress(report(0)))
    metrics.idled("another")
    assert samples(metrics)["penstock_query_records_per_second", "orders"] == 400
    metrics.idled("query-1")
    found = samples(metrics)
    assert found["penstock_query_records_per_second", "orders"] == 0
    assert found["penstock_query_records_total", "orders"] == 100


def test_queries_without_a_name_have_their_id(metrics):
    metrics.progressed(read_progress(report(0, name=None)))
    metrics.progressed(read_progress(report(0, name=None, query="query-2", rows=10)))
    found = samples(metrics)
    assert found["penstock_query_records_total", "query-1"] == 100
    assert found["penstock_query_records_total", "query-2"] == 10


def test_a_name_that_is_used_again_has_one_series(metrics):
    metrics.progressed(read_progress(report(3)))
    metrics.started("query-2", "run-9", "orders")
    metrics.progressed(read_progress(report(0, query="query-2", run="run-9")))
    found = samples(metrics)
    assert found["penstock_query_records_total", "orders"] == 200
    assert found["penstock_query_info", "orders", "query-2", "run-9"] == 1


def test_the_endpoint_serves_what_prometheus_reads(metrics):
    metrics.progressed(read_progress(report(0)))
    endpoint = MetricsEndpoint(metrics, 0)
    url = f"http://127.0.0.1:{endpoint.port}/metrics"
    with urllib.request.urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    assert 'penstock_query_records_total{query="orders"} 100.0' in text
    with pytest.raises(MetricsPortTaken, match=rf"127\.0\.0\.1:{endpoint.port}, is in use: expected a free"):
        MetricsEndpoint(metrics, endpoint.port)
    endpoint.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=60)


def test_the_endpoint_has_users_and_tls(metrics, tmp_path):
    authority = Authority(tmp_path / "authority")
    (tmp_path / "users").write_text("rita: r, reader\nadam: *, admin\n")
    properties = {
        "ssl.keystore.location": str(authority.server.store),
        "authentication.method": "BASIC",
        "penstock.authentication.users": str(tmp_path / "users"),
    }
    endpoint = MetricsEndpoint(metrics, 0, properties=properties)
    try:
        assert endpoint.url == f"https://127.0.0.1:{endpoint.port}/metrics"
        with httpx.Client(verify=ssl.create_default_context(cafile=authority.certificate)) as client:
            assert client.get(endpoint.url).status_code == 401
            assert client.get(endpoint.url, auth=("rita", "r")).status_code == 200
            assert client.get(endpoint.url, auth=("adam", "r")).status_code == 401
    finally:
        endpoint.close()
    with pytest.raises(InvalidAccess, match=r"penstock\.authentication\.users"):
        MetricsEndpoint(metrics, 0, properties={"authentication.method": "BASIC"})


# The console


def console(*, terminal):
    return Console(
        file=io.StringIO(), width=100, force_terminal=terminal, color_system=None, legacy_windows=False
    )


def test_one_line_says_how_a_batch_went():
    expected = "batch 1,207: 100 records in 250 ms (400/s), lag 12, state 1.3 kB"
    assert batch_line(read_progress(report(1207, behind=12))) == expected


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_250_000, "1.2 MB"),
        (10**12, "1.0 TB"),
        (10**16, "10,000.0 TB"),
    ],
)
def test_sizes(count, shown):
    assert size(count) == shown


def lines(to):
    return [line.split(":")[0] for line in to.file.getvalue().splitlines()]


def test_without_a_terminal_each_batch_is_a_line():
    to = console(terminal=False)
    view = ProgressView(to)
    with view.live():
        view.refresh()
        for batch in (0, 0, 1, 1):
            view.progressed(read_progress(report(batch)))
            view.refresh()
            assert view.summary().startswith("100 records in 1 batch," if batch == 0 else "200 records in 2")
    assert lines(to) == ["batch 0", "batch 1", "200 records in 2 batches, 0 s"]


def test_lines_can_be_kept_apart_and_the_last_one_is_never_lost():
    clock, to = Clock(), console(terminal=False)
    view = ProgressView(to, lines_every_s=2, clock=clock)
    with view.live():
        for batch in range(8):
            view.progressed(read_progress(report(batch)))
            clock.now_s += 0.5
        assert lines(to) == ["batch 0", "batch 4"]
        view.refresh()
        assert lines(to) == ["batch 0", "batch 4", "batch 7"], "its time has come"
        clock.now_s += 1
        view.progressed(read_progress(report(8)))
    assert lines(to)[3:] == ["batch 8", "900 records in 9 batches, 5 s"]


def test_a_failure_takes_no_line_away():
    to = console(terminal=False)
    view = ProgressView(to, lines_every_s=100)
    with contextlib.suppress(RuntimeError), view.live():
        view.progressed(read_progress(report(0)))
        view.progressed(read_progress(report(1)))
        raise RuntimeError
    assert lines(to)[:2] == ["batch 0", "batch 1"]


def test_on_a_terminal_the_last_state_stays():
    clock, to = Clock(), console(terminal=True)
    view = ProgressView(to, clock=clock)
    with view.live():
        view.refresh()
        view.progressed(read_progress(report(0, behind=7)))
        view.progressed(read_progress(report(0, behind=7)))
        clock.now_s += 3
        view.progressed(read_progress(report(1, behind=5)))
    screen = to.file.getvalue()
    assert screen.index("no batch yet") < screen.index("0 batch") < screen.rindex("1 batch")
    to = console(terminal=False)
    to.print(view.render())
    drawn = to.file.getvalue()
    figures = ("1 batch", "400 records/s", "250 ms a batch", "5 lag", "1.3 kB state", "200 records in 3 s")
    for figure in figures:
        assert figure in drawn
    assert "behind: orders-0 5" in drawn
    assert "ms: addBatch 200  latestOffset 2" in drawn


def test_many_partitions_are_shown_by_the_worst():
    given = report(0)
    given["sources"][0]["endOffset"] = {"t": {str(n): 0 for n in range(9)}}
    given["sources"][0]["latestOffset"] = {"t": {str(n): n for n in range(9)}}
    to = console(terminal=False)
    view = ProgressView(to)
    view.progressed(read_progress(given))
    to.print(view.render())
    assert "behind: t-8 8  t-7 7  t-6 6  t-5 5  t-4 4  t-3 3 and 2 more" in to.file.getvalue()


# Dead letters

STAGED = (None, 5, (("dead", 0, 10),), b"", None)


def test_dead_letters_of_a_batch_count_once_and_stay_when_it_is_run_again(tmp_path: Path):
    count = DeadLetterCount(str(tmp_path))
    assert count.total() == 0
    count.add([TaskStaged(*STAGED), TaskWritten(3), None], 0)
    assert not list(tmp_path.iterdir()), "without dead letters nothing is written"
    count.add([StagedWithCounts(*STAGED, 2), StagedWithCounts(*STAGED, 1)], 1)
    count.add([StagedWithCounts(*STAGED, 2), StagedWithCounts(*STAGED, 1)], 1)
    assert count.total() == DeadLetterCount(str(tmp_path)).total() == 3
    count.add([WrittenWithCounts(5, 4)], 4)
    assert count.total() == 7


def test_a_damaged_count_harms_nobody(tmp_path: Path, caplog):
    count = DeadLetterCount(str(tmp_path))
    count.add([WrittenWithCounts(5, 4)], 4)
    assert count.total() == 4
    (tmp_path / "penstock" / "dead-letters.json").write_text("{")
    assert count.total() == 4, "what was known last"
    count.add([WrittenWithCounts(5, 1)], 5)
    assert "dead letters not counted count=1 batch=5" in caplog.text
    assert "dead-letters.json is damaged" in caplog.text


def test_dead_letters_are_served_beside_the_query(metrics, tmp_path: Path):
    count = DeadLetterCount(str(tmp_path))
    count.add([WrittenWithCounts(5, 4)], 4)
    metrics.count_dead_letters("orders", count.total)
    assert samples(metrics)["penstock_query_dead_letters_total", "orders"] == 4


# Dropped records


def test_dropped_records_are_logged_once_a_batch_and_counted_by_node(metrics, tmp_path: Path, caplog):
    count = DroppedCount(str(tmp_path), "orders")
    assert count.totals() == {}
    count.add([TaskStaged(*STAGED), WrittenWithCounts(5, 2), None], 0)
    assert not list(tmp_path.iterdir()), "without dropped records nothing is written"
    of_two_tasks = [
        StagedWithCounts(*STAGED, 0, dropped={"windows": 3, "table": 1}),
        StagedWithCounts(*STAGED, 0, dropped={"windows": 2}),
    ]
    count.add(of_two_tasks, 1)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "application=orders batch=1 count=6 nodes=table: 1, windows: 5" in record.getMessage()
    count.add(of_two_tasks, 1)  # the same batch again
    count.add([WrittenWithCounts(5, 0, dropped={"windows": 4})], 2)
    assert count.totals() == DroppedCount(str(tmp_path), "orders").totals() == {"windows": 9, "table": 1}
    metrics.count_dropped(lambda: {"orders": count.totals()})
    found = samples(metrics)
    assert found["penstock_query_dropped_records_total", "orders", "windows"] == 9
    assert found["penstock_query_dropped_records_total", "orders", "table"] == 1
