"""The whole job, step by step, on a cluster that runs already.

create topics ─┬→ replay tables ─┐
               └→ start Spark ───┴→ start the query → replay flights → stream drained → end event
                  → windows closed → read the result → batch → pandas → chart → compare
"""

from __future__ import annotations

import logging
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.flights import check, expected, monitor, pipeline
from penstock.spark.flights.chart import draw_chart
from penstock.spark.flights.data import DAYS_IN_DATA, Frames, Record, flight_records, load_frames
from penstock.spark.flights.replay import Replay
from penstock.spark.flights.topics import Topics, create_topics
from penstock.spark.flights.view import View
from penstock.spark.java import find_java
from penstock.spark.session import build_session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

CHART_NAME = "flights.png"
LOG_NAME = "spark.log"
VIEW_EVERY_S = 0.25
# About a dozen batches for the year: enough to watch, few enough that their fixed cost stays small.
MAX_OFFSETS_PER_TRIGGER = 40_000


@dataclass(frozen=True, slots=True)
class Options:
    """What to run and where; chart and Spark's log go to the directory `output`, made if need be.

    `days` cuts the year short; `partitions` holds for every topic.
    """

    bootstrap_servers: str
    topics: Topics
    output: Path
    days: int = DAYS_IN_DATA
    partitions: int = 2
    max_offsets_per_trigger: int = MAX_OFFSETS_PER_TRIGGER


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out: `comparisons` are stream to batch and batch to pandas, in that order."""

    flights: int
    results: int
    totals: monitor.Totals
    comparisons: tuple[check.Comparison, ...]
    chart: Path

    @property
    def correct(self) -> bool:
        """All results equal, every flight read once, none dropped as late."""
        return not self.totals.rows_late and all(comparison.equal for comparison in self.comparisons)


class JobFailed(RuntimeError):
    """The stream did not end as it must; the message says how."""


@dataclass(frozen=True, slots=True)
class _Input:
    frames: Frames
    flights: list[Record]
    replay: Replay


def run(options: Options, view: View, spark: SparkSession | None = None) -> Outcome:
    """Run the job and return what came out; unequal results are an outcome, not an error.

    Without `spark` a session is started here, and stopped at the end. Raises `JobFailed`, and what the
    cluster or Spark raise.
    """
    options.output.mkdir(parents=True, exist_ok=True)
    create_topics(options.bootstrap_servers, options.topics, options.partitions)
    with ThreadPoolExecutor(1) as background:
        input_ready = background.submit(_prepare_input, options, view)
        session = spark or _start_spark(options, view)
        try:
            return _run(options, view, session, input_ready)
        finally:
            if spark is None:
                session.stop()


def _run(options: Options, view: View, spark: SparkSession, input_ready: Future[_Input]) -> Outcome:
    job_input = input_ready.result()
    source = pipeline.Source(spark, options.bootstrap_servers, options.topics)
    with _timed(view, "tables read into Spark"):
        tables = source.tables()
        tables.airlines.count()  # makes it read all four now
    with tempfile.TemporaryDirectory(prefix="penstock-checkpoint-") as checkpoint:
        query = pipeline.start_query(source, tables, Path(checkpoint), options.max_offsets_per_trigger)
        try:
            totals = _stream(options, view, query, job_input)
        finally:
            query.stop()
    stream, batch, frames = _results(options, view, source, tables, job_input.frames)
    chart = options.output / CHART_NAME
    with _timed(view, f"chart drawn: {chart}"):
        draw_chart(stream, chart)
    comparisons = (
        check.compare("the stream", stream, "Spark's batch", batch),
        check.compare("Spark's batch", batch, "pandas", frames),
    )
    return Outcome(len(job_input.flights), len(stream), totals, comparisons, chart)


def _prepare_input(options: Options, view: View) -> _Input:
    """Load the frames and fill the table topics, while Spark starts."""
    with _timed(view, f"events of {options.days} days made"):
        frames = load_frames(options.days)
        flights = flight_records(frames.flights)
    with _timed(view, "airlines, airports, planes and weather replayed"):
        replay = Replay(options.bootstrap_servers, options.topics, options.partitions)
        replay.send_tables(frames)
    return _Input(frames, flights, replay)


def _start_spark(options: Options, view: View) -> SparkSession:
    started_s = time.monotonic()
    spark = build_session("penstock demo", log_file=options.output / LOG_NAME)
    _interrupt_quietly()
    seconds = time.monotonic() - started_s
    view.step(f"Spark {spark.version} on Java {find_java().version}", seconds)
    return spark


def _interrupt_quietly() -> None:
    """Let Ctrl-C end the job: Spark's own handler calls Java amid another call, and both fail at length."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in (None, "py4j"):  # the bridge to Java logs to the root as well
        logging.getLogger(name).addFilter(lambda record: "while sending command" not in record.getMessage())


def _stream(options: Options, view: View, query: StreamingQuery, job_input: _Input) -> monitor.Totals:
    """Replay and watch until all is read, then close the last windows."""
    started_s = time.monotonic()
    total = len(job_input.flights)
    watch = monitor.Monitor(query, options.bootstrap_servers, options.topics, options.partitions)
    with ThreadPoolExecutor(1) as background, view.live():
        replayed = background.submit(_replay_flights, job_input)
        while True:
            sent = replayed.done()  # asked first: what it says holds for the snapshot after it
            snapshot = watch.snapshot()
            view.update(snapshot, total)
            if sent and (replayed.exception() or snapshot.lag == 0):
                break
            time.sleep(VIEW_EVERY_S)
        replay_s = replayed.result()
        last_ms = job_input.flights[-1].timestamp_ms
        job_input.replay.send_end(last_ms + pipeline.WATERMARK_DELAY_MS + pipeline.WINDOW_MS)
        query.processAllAvailable()
        view.update(watch.snapshot(all_results=True), total)
    watch.close()
    view.step(f"{total:,} flights replayed, {total / replay_s:,.0f} a second", replay_s)
    view.step(f"{total:,} flights streamed, last windows closed", time.monotonic() - started_s)
    totals = monitor.totals(query)
    if totals.rows_read != total + options.partitions:
        raise JobFailed(
            f"the stream read {totals.rows_read:,} events of {total:,} flights and {options.partitions} ends"
        )
    return totals


def _replay_flights(job_input: _Input) -> float:
    """Send all flights; return the seconds it took."""
    started_s = time.monotonic()
    job_input.replay.send_flights(job_input.flights)
    return time.monotonic() - started_s


def _results(
    options: Options, view: View, source: pipeline.Source, tables: pipeline.Tables, frames: Frames
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    with _timed(view, f"result read from topic {options.topics.delays}"):
        stream = check.stream_result(options.bootstrap_servers, options.topics.delays)
    with _timed(view, "Spark's batch over the same topics"):
        batch = check.batch_result(source, tables)
    with _timed(view, "pandas over the original frames"):
        by_pandas = check.comparable(expected.expected_delays(frames))
    return stream, batch, by_pandas


@contextmanager
def _timed(view: View, text: str) -> Iterator[None]:
    started_s = time.monotonic()
    yield
    view.step(text, time.monotonic() - started_s)
