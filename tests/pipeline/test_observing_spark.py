"""Queries and applications on Spark under observation: a scrape of the endpoint shows what happened."""

import time
import urllib.request
import uuid

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.errors import StreamingQueryException

from penstock.spark.observing import MetricsEndpoint, MetricsPortTaken, QueryMetrics, observe
from penstock.streams import App, string

pytestmark = pytest.mark.spark


def numbers(first, end):
    return [b"%d" % n for n in range(first, end)]


def scraped(port, query):
    """The samples of one query: {(name, *values of the other labels, by label): value}."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        (
            sample.name,
            *(value for label, value in sorted(sample.labels.items()) if label != "query"),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("query") == query
    }


def scraped_when(port, query, key, value):
    """Spark reports in a thread of its own."""
    deadline = time.monotonic() + 60
    while (found := scraped(port, query)).get(key) != value:
        assert time.monotonic() < deadline, f"{key} is {found.get(key)}, not {value}"
        time.sleep(0.02)
    return found


@pytest.fixture
def session(spark):
    """A session of its own, which reports no other tests' queries."""
    return spark.newSession()


@pytest.fixture
def start(session, servers, tmp_path):
    queries = []

    def run(name, sink, **options):
        given = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}
        query = (
            session.readStream.format("penstock")
            .options(**given | {key: str(value) for key, value in options.items()})
            .load()
            .writeStream.foreachBatch(sink)
            .queryName(name)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        queries.append(query)
        return query

    yield run
    for query in queries:
        query.stop()


def test_the_life_of_a_query(session, start, make_topic, produce):
    topic, name = make_topic(2), f"watched-{uuid.uuid4().hex}"
    may_fail = []

    def sink(batch, batch_id):
        batch.count()
        if may_fail:
            raise RuntimeError("the sink is down")

    with observe(session, metrics_port=0) as watch:
        produce(topic, numbers(0, 20), partition=0)
        produce(topic, numbers(20, 25), partition=1)
        query = start(name, sink, subscribe=topic, maxOffsetsPerTrigger=10)
        found = scraped_when(watch.port, name, ("penstock_query_records_total",), 25)
        assert found["penstock_query_active",] == 1
        assert found["penstock_query_info", query.id, query.runId] == 1
        assert found["penstock_query_last_batch",] == 2
        assert found["penstock_query_batch_seconds_count",] == 3
        assert found["penstock_query_batch_seconds_sum",] > 0
        assert found["penstock_query_phase_seconds_total", "addBatch"] > 0
        assert {key[1]: value for key, value in found.items() if key[0] == "penstock_query_lag"} == {
            "0": 0,
            "1": 0,
        }
        may_fail.append(True)
        produce(topic, numbers(25, 26), partition=1)
        with pytest.raises(StreamingQueryException, match="the sink is down"):
            query.awaitTermination(60)
        found = scraped_when(watch.port, name, ("penstock_query_active",), 0)
        assert found["penstock_query_failures_total",] == 1
        may_fail.clear()
        start(name, sink, subscribe=topic)
        found = scraped_when(watch.port, name, ("penstock_query_records_total",), 26)
        assert found["penstock_query_active",] == 1
        assert found["penstock_query_restarts_total",] == 1
        assert found["penstock_query_last_batch",] == 3
        port = watch.port
    with pytest.raises(OSError, match="refused"):
        scraped(port, name)


def test_watchers_are_told_beside_the_metrics(session, start, make_topic, produce):
    topic, name, told = make_topic(), f"told-{uuid.uuid4().hex}", []

    class Watcher:
        def started(self, query_id, run_id, name):
            told.append(("started", query_id, run_id, name))

        def progressed(self, progress):
            told.append(("progressed", progress.query_id, progress.run_id, progress.records))

        def idled(self, query_id):
            told.append(("idled", query_id))

        def ended(self, query_id, run_id, error):
            told.append(("ended", query_id, run_id, error))

    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "50")
    produce(topic, numbers(0, 7))
    with observe(session, Watcher()) as watch:
        assert watch.port is None
        query = start(name, lambda batch, batch_id: batch.count(), subscribe=topic)
        query.processAllAvailable()
        deadline = time.monotonic() + 60
        while ("idled", query.id) not in told and time.monotonic() < deadline:
            time.sleep(0.02)
        query.stop()
        while told[-1][0] != "ended" and time.monotonic() < deadline:
            time.sleep(0.02)
    events = list(dict.fromkeys(told))
    assert events == [
        ("started", query.id, query.runId, name),
        ("progressed", query.id, query.runId, 7),
        ("idled", query.id),
        ("ended", query.id, query.runId, None),
    ]


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_an_application_serves_its_metrics_and_counts_dead_letters(
    spark, servers, make_topic, produce, tmp_path, guarantee
):
    words, dead = make_topic(2), make_topic()
    name = f"watched-{uuid.uuid4().hex}"
    app = App(name, key=string, value=string, dead_letter=dead)
    parsed = app.stream(words).map_values(lambda word: str(int(word)))
    parsed.group_by_key().count(store="counts").to_stream().map_values(str).to(f"{name}-counts")

    def start():
        return app.start(
            bootstrap_servers=servers,
            checkpoint=tmp_path / "checkpoint",
            spark=spark,
            guarantee=guarantee,
            metrics_port=0,
        )

    produce(words, [b"1", b"2", b"none", b"3"], partition=0, key=b"k")
    produce(words, [b"1", b"2"], partition=0)  # dropped: grouping needs a key
    with start() as running:
        produce(words, [b"4", b"none either", b"\xff"], partition=1, key=b"j")
        running.wait_until_read()
        found = scraped_when(running.metrics_port, name, ("penstock_query_records_total",), 9)
        [(grouping, dropped)] = running.dropped_records().items()
        assert dropped == found["penstock_query_dropped_records_total", grouping] == 2
        assert grouping in running.describe()
        assert found["penstock_query_dead_letters_total",] == 3
        assert found["penstock_query_active",] == 1
        assert found["penstock_query_state_bytes",] > 0
        assert found["penstock_query_lag", "0", words] == found["penstock_query_lag", "1", words] == 0
        with pytest.raises(MetricsPortTaken):
            MetricsEndpoint(QueryMetrics(), running.metrics_port)
        port = running.metrics_port
    with pytest.raises(OSError, match="refused"):
        scraped(port, name)
    if guarantee == "at-least-once":
        return
    produce(words, [b"5", b"no number"], partition=0, key=b"k")
    with start() as running:
        running.wait_until_read()
        found = scraped_when(running.metrics_port, name, ("penstock_query_records_total",), 2)
        assert found["penstock_query_dead_letters_total",] == 4, "since the checkpoint was made"
