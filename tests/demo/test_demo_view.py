"""The output of the demo: on a terminal, in a pipe, and as a picture."""

from __future__ import annotations

import io
from pathlib import Path

from demo_runs import TOPICS, logs_of
from rich.console import Console

from penstock.demo.chart import draw_chart
from penstock.demo.data import load_frames
from penstock.demo.expected import expected_results
from penstock.demo.monitor import Airline, Lag
from penstock.demo.processes import BatchProgress
from penstock.demo.scenario import build_scenario
from penstock.demo.view import Snapshot, View

JETBLUE = Airline("JetBlue Airways", flights=1_000, cancelled=200, delayed=250, minutes=10_000, seats=90_000)
SNAPSHOT = Snapshot(
    elapsed_s=12.0,
    total=390_000,
    lag=Lag(read=120_000, behind=54_321, under_way=987),
    progress=BatchProgress(
        7, records=90_000, records_per_second=25_608.4, batch_ms=3_514, state_bytes=41 << 20
    ),
    results=27_020,
    airlines=(JETBLUE,),
    kills=2,
)


def test_the_terminal_shows_throughput_lag_state_and_the_airlines() -> None:
    out = io.StringIO()
    view = View(Console(file=out, force_terminal=True, width=110))
    with view.live():
        view.update(SNAPSHOT)
    shown = out.getvalue()
    for text in (
        "25,608",
        "54,321",
        "987",
        "3,514",
        "27,020",
        "120,000 of 390,000",
        "JetBlue",
        "12.5 min",
        "25%",
    ):
        assert text in shown


def test_before_the_first_batch_there_is_no_throughput() -> None:
    out = io.StringIO()
    view = View(Console(file=out, force_terminal=True, width=110))
    with view.live():
        view.update(Snapshot(0.5, 10, Lag(0, 10, 0), None, 0, ()))
    assert "0 of 10" in out.getvalue()
    assert "killed" not in out.getvalue()


def test_a_pipe_gets_plain_lines_and_not_too_many() -> None:
    out = io.StringIO()
    view = View(Console(file=out, force_terminal=False, width=80))
    with view.live():
        for _ in range(50):
            view.update(SNAPSHOT)
    assert out.getvalue() == (
        "  120,000 of 390,000 records read, lag 54,321, 987 on the way, 27,020 results, 25,608 rows/s, "
        "3,514 ms a batch, worst: JetBlue Airways, 12.5 min\n"
    )


def test_the_chart_is_a_png_also_of_a_short_run(tmp_path: Path) -> None:
    path = tmp_path / "chart.png"
    results = expected_results(logs_of(build_scenario(load_frames(3), TOPICS, 2, 1).records), TOPICS).results
    draw_chart(results[TOPICS.hours], results[TOPICS.weather_delays], results[TOPICS.airline_delays], path)
    assert path.read_bytes().startswith(b"\x89PNG")
