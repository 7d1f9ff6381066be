"""Rerun failed tests of the gate once, each alone, after all others.

A test that fails and then passes is reported as ``FLAKY`` with its first traceback, and does not fail the
run while there are few of them. A test that fails twice fails the run. Histories from a seed are not rerun:
a seed that fails is a finding.

`make test` asks for this with ``RERUN=1``; pytest by itself reruns nothing.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from leftovers import culprits_of

FLAKY_TESTS_MAX: Final = 3
NEVER_RUN_AGAIN: Final = ("simulation", "storage", "model")
"""Folders of tests/ whose failures are not rerun."""
RERUN_TIMEOUT_S: Final = 600
"""Limit on one rerun, which starts its own nodes and Spark session."""


def are_requested() -> bool:
    return os.environ.get("RERUN", "0") != "0"


class Reruns:
    """The failures of one pytest session, and their reruns after its summary."""

    def __init__(self) -> None:
        self._tracebacks: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            for nodeid in culprits_of(report) or [report.nodeid]:
                self._tracebacks.setdefault(nodeid, report.longreprtext)

    # The outermost wrapper: the reruns start once pytest has stopped its workers and printed its summary.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(
        self, session: pytest.Session, exitstatus: int | pytest.ExitCode
    ) -> Iterator[None]:
        yield
        if exitstatus != pytest.ExitCode.TESTS_FAILED or not self._may_be_flaky():
            return
        if self._all_pass_alone(session):
            session.exitstatus = pytest.ExitCode.OK

    def _may_be_flaky(self) -> bool:
        return 0 < len(self._tracebacks) <= FLAKY_TESTS_MAX and not any(
            map(_is_never_run_again, self._tracebacks)
        )

    def _all_pass_alone(self, session: pytest.Session) -> bool:
        print(f"\n== failed tests run once more, each alone: {len(self._tracebacks)}", flush=True)
        passed_alone = [nodeid for nodeid in self._tracebacks if _passes_alone(session, nodeid)]
        for nodeid in passed_alone:
            print(f"\nFLAKY {nodeid}: it failed first, and passed alone. The first failure was:\n")
            print(self._tracebacks[nodeid], flush=True)
        return len(passed_alone) == len(self._tracebacks)


def _is_never_run_again(nodeid: str) -> bool:
    folders = nodeid.partition("::")[0].split("/")[:-1]
    return any(folder in NEVER_RUN_AGAIN for folder in folders)


def _passes_alone(session: pytest.Session, nodeid: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", nodeid]
    try:
        done = subprocess.run(
            command,
            cwd=session.config.rootpath,
            env=os.environ | {"RERUN": "0"},
            timeout=RERUN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{nodeid} did not end within {RERUN_TIMEOUT_S} s", flush=True)
        return False
    return done.returncode == pytest.ExitCode.OK
