"""Packages of an extra that a command misses only once it runs, or that have another version."""

import sys

import pyspark
import pytest
from typer.testing import CliRunner

from penstock.cli import main
from penstock.extras import missing_extra


def draw() -> None:
    """Fail as a command does whose imports inside a function find no package."""
    raise missing_extra("demo", "a chart", ["plotter"])


def test_a_late_missing_extra_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(main.COMMANDS, "draw", (__name__, "draw", "Draw a chart."))
    monkeypatch.setattr(sys, "argv", ["penstock", "draw"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: a chart needs plotter. Install the extra with: ")
    assert said.err.endswith("'penstock[demo]'\n")
    assert said.err.count("\n") == 1


def test_a_sql_server_names_the_version_of_spark_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.0.5")
    done = CliRunner().invoke(main.build_app("sql"), ["sql", "server"])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: a SQL server needs Spark 4.3, found 4.0.5: pip install")
    assert done.stderr.count("\n") == 1
