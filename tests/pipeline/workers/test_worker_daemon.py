"""Daemons of Python workers: that of `build_session`, and pyspark's own."""

from __future__ import annotations

import sys
import traceback
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from penstock.spark.workers.ending import end_worker_quietly, report_failure


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_worker_whose_connection_spark_has_closed_ends_without_a_trace(
    error: OSError, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise error
    except OSError:
        report_failure()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("program", "is_quiet"), [("pyspark.daemon", True), ("pyspark.worker", False)])
def test_a_worker_of_pysparks_own_daemon_reports_the_same_way(
    monkeypatch: pytest.MonkeyPatch, program: str, is_quiet: bool
) -> None:
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec(program, None)
    vars(main)["traceback"] = traceback
    monkeypatch.setitem(sys.modules, "__main__", main)
    end_worker_quietly()
    assert (main.traceback.print_exc is report_failure) is is_quiet


def test_the_daemon_reports_any_other_error(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("something else")
    except ValueError:
        report_failure()
    assert capsys.readouterr().err.endswith("ValueError: something else\n")
