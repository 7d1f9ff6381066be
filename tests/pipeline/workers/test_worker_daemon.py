"""The daemon of a local session's Python workers."""

from __future__ import annotations

import pytest

from penstock.spark.workers.daemon import report_failure


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_worker_whose_connection_spark_has_closed_ends_without_a_trace(
    error: OSError, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise error
    except OSError:
        report_failure()
    assert capsys.readouterr().err == ""


def test_the_daemon_reports_any_other_error(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("something else")
    except ValueError:
        report_failure()
    assert capsys.readouterr().err.endswith("ValueError: something else\n")
