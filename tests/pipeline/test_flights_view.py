"""What the demo shows: on a terminal, in a pipe, and as a picture."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from penstock.spark.flights.chart import draw_chart
from penstock.spark.flights.check import comparable
from penstock.spark.flights.data import load_frames
from penstock.spark.flights.expected import expected_delays
from penstock.spark.flights.monitor import Delay, Snapshot
from penstock.spark.flights.view import View, duration

WORST = Delay(
    1301, "HA 51", "JFK", "Honolulu Intl", "2013-01-09T14:00:00Z", "Hawaiian Airlines Inc."
)  # fmt: skip
SNAPSHOT = Snapshot(
    elapsed_s=12.0,
    batches=3,
    rows_read=120_000,
    lag=216_776,
    rows_per_second=25_608.4,
    watermark="2013-03-29T12:00:00.000Z",
    results=27_020,
    worst=(WORST,),
)


def test_the_terminal_shows_throughput_lag_and_the_worst_delays() -> None:
    out = io.StringIO()
    view = View(Console(file=out, force_terminal=True, width=100))
    with view.live():
        view.update(SNAPSHOT, 336_776)
    shown = out.getvalue()
    for text in ("25,608", "216,776", "2013-03-29", "21 h 41 min", "Honolulu Intl", "120,000 of 336,776"):
        assert text in shown


def test_a_pipe_gets_plain_lines_and_not_too_many() -> None:
    out = io.StringIO()
    view = View(Console(file=out, force_terminal=False, width=80))
    with view.live():
        for _ in range(50):
            view.update(SNAPSHOT, 336_776)
    assert out.getvalue() == (
        "  120,000 of 336,776 flights, 25,608 rows/s, lag 216,776, 27,020 results, "
        "worst: 21 h 41 min HA 51 JFK → Honolulu Intl\n"
    )


def test_duration_in_hours_and_minutes() -> None:
    assert [duration(59), duration(60), duration(1301)] == ["59 min", "1 h 00 min", "21 h 41 min"]


def test_the_chart_is_a_png_also_of_a_short_run(tmp_path: Path) -> None:
    path = tmp_path / "chart.png"
    draw_chart(comparable(expected_delays(load_frames(days=2))), path)
    assert path.read_bytes().startswith(b"\x89PNG")
