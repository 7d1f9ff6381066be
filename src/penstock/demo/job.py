"""The whole demo, step by step, on a running cluster.

create topics → start the application's process → make the input → feed it, watch, kill if requested
→ all read → stop → read input and results by another client → pandas → compare → chart
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.demo import check
from penstock.demo.chaos import Kill, Schedule
from penstock.demo.chart import draw_chart
from penstock.demo.data import DAYS_IN_DATA, load_frames
from penstock.demo.driver import Settings
from penstock.demo.expected import Expected, expected_results
from penstock.demo.feed import Feed
from penstock.demo.log import LogRecord, read_topics
from penstock.demo.monitor import Monitor
from penstock.demo.processes import Application
from penstock.demo.scenario import Scenario, build_scenario
from penstock.demo.topics import Topics, create_topics
from penstock.demo.view import Snapshot, View

if TYPE_CHECKING:
    import pandas as pd

CHART_NAME: Final = "flights.png"
LOG_NAME: Final = "spark.log"
VIEW_EVERY_S: Final = 0.2
LAG_MAX: Final = 60_000
STALLED_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run; the chart and Spark's log are written to the directory `output`.

    `days` shortens the year; `partitions` applies to every topic; `seed` is that of the scenario. The feed
    stays up to `lag_max` records ahead of the application, so that tables change while it runs, not before.
    """

    bootstrap_servers: str
    topics: Topics
    output: Path
    seed: int
    days: int = DAYS_IN_DATA
    partitions: int = 2
    kills: tuple[Kill, ...] = ()
    lag_max: int = LAG_MAX


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run: a comparison for each result topic; `starts` of the application."""

    scenario: Scenario
    expected: Expected
    comparisons: tuple[check.Comparison, ...]
    starts: int
    kills: int
    seconds: float
    chart: Path

    @property
    def correct(self) -> bool:
        return all(comparison.equal for comparison in self.comparisons)


class Stalled(RuntimeError):
    """The application runs but reads nothing; the message says for how long."""


def run(options: Options, view: View, restart_node: Callable[[], None] | None = None) -> Outcome:
    """Run the demo and return the outcome; unequal results are an outcome, not an error.

    ``restart_node`` kills the node and starts it again, for kills of the node. Raises ApplicationEnded,
    Stalled, FeedFailed, TopicsExist, and the cluster's own errors.
    """
    begun_s = time.monotonic()
    options.output.mkdir(parents=True, exist_ok=True)
    create_topics(options.bootstrap_servers, options.topics, options.partitions)
    with tempfile.TemporaryDirectory(prefix="penstock-checkpoint-") as checkpoint:
        log = str((options.output / LOG_NAME).absolute())
        settings = Settings(options.bootstrap_servers, options.topics.prefix, checkpoint, log)
        application = Application(settings)
        application.start()
        try:
            with _timed(view, f"{options.days} days of reports and tables made, seed {options.seed}"):
                frames = load_frames(options.days)
                scenario = build_scenario(frames, options.topics, options.partitions, options.seed)
            _stream(options, view, application, scenario, restart_node)
            application.stop()
        finally:
            application.kill()
    expected, comparisons, chart = _check(options, view)
    seconds = time.monotonic() - begun_s
    kills = len(options.kills)
    return Outcome(scenario, expected, comparisons, application.starts, kills, seconds, chart)


def _stream(
    options: Options,
    view: View,
    application: Application,
    scenario: Scenario,
    restart_node: Callable[[], None] | None,
) -> None:
    """Feed the application, watch it, and carry out the kills, until it has read everything."""
    begun_s = time.monotonic()
    feed = Feed(options.bootstrap_servers, scenario.records)
    monitor = Monitor(options.bootstrap_servers, options.topics, options.partitions)
    schedule, kills, starts_seen = Schedule(list(options.kills)), 0, 0
    last_lag, last_moved_s = None, begun_s
    with view.live():
        while True:
            application.require_running()
            if application.started is not None and starts_seen < application.starts:
                starts_seen = application.starts
                view.step(*_started(application))
            sent_all = feed.is_done  # read first, so that it holds for the lag read after it
            lag = monitor.lag()
            monitor.read_results()
            now_s = time.monotonic()
            snapshot = Snapshot(
                now_s - begun_s,
                feed.total,
                lag,
                application.progress,
                monitor.results,
                monitor.worst_airlines(),
                kills,
            )
            view.update(snapshot)
            if sent_all and lag.is_drained and schedule.is_over:
                break
            if lag != last_lag or not application.started:
                last_lag, last_moved_s = lag, now_s
            elif now_s - last_moved_s > STALLED_S:
                raise Stalled(
                    f"the application has read nothing for {STALLED_S:g} s, and {lag.behind:,} records wait"
                )
            for kill in schedule.due(lag.read / feed.total, now_s):
                kills += 1
                view.note(f"[red]✗[/] kill -9: the {kill.victim}, at {lag.read:,} records read")
                _carry_out(kill, application, restart_node)
            if feed.sent - lag.read < options.lag_max and not feed.is_done:
                feed.send(options.lag_max // 4)
            else:
                time.sleep(VIEW_EVERY_S)
        monitor.read_results(all_of_them=True)
    monitor.close()
    seconds = time.monotonic() - begun_s
    view.step(f"{feed.total:,} records processed, {monitor.results:,} results committed", seconds)


def _carry_out(kill: Kill, application: Application, restart_node: Callable[[], None] | None) -> None:
    if kill.victim == "application":
        application.kill()
        application.start()
    elif restart_node is not None:
        restart_node()


def _started(application: Application) -> tuple[str, float]:
    said = application.started
    assert said is not None
    again = " again" if application.starts > 1 else ""
    return f"application started{again}: Spark {said['spark']} on Java {said['java']}", said["started"]


def _check(options: Options, view: View) -> tuple[Expected, tuple[check.Comparison, ...], Path]:
    topics = options.topics
    with _timed(view, "input and results read from their topics"):
        logs = read_topics(options.bootstrap_servers, (*topics.inputs, *topics.results))
    found = {name: _result(topics, name, logs[name]) for name in topics.results}
    with _timed(view, "expected results computed by pandas from the log of the input"):
        expected = expected_results(logs, topics)
    comparisons = tuple(check.compare(name, found[name], expected.results[name]) for name in topics.results)
    chart = options.output / CHART_NAME
    with _timed(view, f"chart drawn: {chart}"):
        draw_chart(found[topics.hours], found[topics.weather_delays], found[topics.airline_delays], chart)
    return expected, comparisons, chart


def _result(topics: Topics, name: str, log: list[LogRecord]) -> pd.DataFrame:
    return check.hours_of(log) if name == topics.hours else check.table_of(log)


@contextmanager
def _timed(view: View, text: str) -> Iterator[None]:
    started_s = time.monotonic()
    yield
    view.step(text, time.monotonic() - started_s)
