"""The logs of the nodes of a test run: shown in the reports of tests that fail, and kept for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Final

LINES_MAX: Final = 100
"""Limit on the lines of each log in a report, which names the file with all of them."""


class ClusterLogs:
    """The directory with the logs of one cluster.

    ``is_shared`` says that the cluster was started outside of this test run, whose tests may share it with
    other processes. Its owner removes the logs.
    """

    def __init__(self, path: Path, *, is_shared: bool = False) -> None:
        self.path = path
        self.is_shared = is_shared
        self.is_closed = False
        """Whether the cluster has ended and will not be started again."""
        self.is_kept = False
        """Whether the test that these logs belong to has failed."""
        self._sizes: dict[Path, int] = {}

    def begin_test(self) -> None:
        """Let `of_this_test` leave out what has been logged so far."""
        self._sizes = {file: file.stat().st_size for file in self.path.glob("*.log")}

    def of_this_test(self, *, even_none: bool) -> Iterator[str]:
        """For each node: the last lines that it logged in this test, if any, and the path of its log."""
        for file in sorted(self.path.glob("*.log")):
            with file.open("rb") as log:
                log.seek(self._sizes.get(file, 0))
                lines = log.read().decode(errors="replace").splitlines()
            if lines or even_none:
                shown = lines[-LINES_MAX:]
                place = f"of this test, in {file}"
                if self.is_shared:
                    place = "while this test ran, of a shared node"
                heading = f"the last {len(shown)} of {len(lines)} lines {place}:"
                yield "\n".join([heading, *shown])


class RunLogs:
    """The logs of all clusters of a test run, each in a directory from ``new_directory``."""

    def __init__(self, new_directory: Callable[[], Path]) -> None:
        self._new_directory = new_directory
        self._clusters: list[ClusterLogs] = []

    def of_new_cluster(self) -> ClusterLogs:
        logs = ClusterLogs(self._new_directory())
        self._clusters.append(logs)
        return logs

    def share(self, others: Iterable[ClusterLogs]) -> None:
        """Report the logs of clusters that were started outside of this run too."""
        self._clusters += others

    def directories(self) -> list[Path]:
        """The directories of all clusters that have not ended."""
        return [logs.path for logs in self._clusters if not logs.is_closed]

    def begin_test(self) -> None:
        for logs in self._clusters:
            logs.begin_test()

    def of_failed_test(self, used: Container[Path]) -> list[str]:
        """Return the logs of this test, as texts for its report, and keep their files.

        A node that logged nothing is left out, unless its cluster, with a directory in ``used``, is known to
        belong to the test.
        """
        texts = []
        for logs in self._clusters:
            found = list(logs.of_this_test(even_none=logs.path in used))
            logs.is_kept |= bool(found)
            texts += found
        return texts

    def end_test(self) -> None:
        """Remove the logs of clusters that have ended without a failed test."""
        ended = [logs for logs in self._clusters if logs.is_closed]
        self._clusters = [logs for logs in self._clusters if not logs.is_closed]
        _remove(ended)

    def end_run(self) -> None:
        _remove(self._clusters)
        self._clusters = []


def _remove(clusters: list[ClusterLogs]) -> None:
    for logs in clusters:
        if not (logs.is_kept or logs.is_shared):
            shutil.rmtree(logs.path, ignore_errors=True)


current: RunLogs | None = None
"""The logs of the test run in this process, if one is under way; otherwise logs go with their clusters."""

_outside: list[ClusterLogs] = []
"""The logs of clusters that were started while no test run was under way."""


def of_new_cluster(scratch: Path) -> ClusterLogs:
    """Choose the directory for the logs of a new cluster, whose own temporary directory is ``scratch``."""
    if current is not None:
        return current.of_new_cluster()
    _outside[:] = outside_of_runs()
    _outside.append(ClusterLogs(scratch, is_shared=True))
    return _outside[-1]


def outside_of_runs() -> list[ClusterLogs]:
    """The logs of clusters that were started before the test run, for example in `pytest_configure`."""
    return [logs for logs in _outside if not logs.is_closed]
