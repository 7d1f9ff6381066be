"""Name and end processes that tests leave behind, and fail the run.

A test may start processes, and so may a fixture; each has to end them. After the last test of a module, once
pytest has torn down the module's fixtures, every process is left behind that the tests started and that still
runs, unless a fixture of the package or the session started it. After the last test of all, nothing may run.

A process belongs to this pytest process if it descends from it, or if it inherited the variable `MARK`: so a
process is also found whose parent has ended. A process with an environment of its own whose parent has ended
is not found.
"""

import os
import signal
import time
import uuid
from collections.abc import Generator, Iterable
from functools import cached_property
from typing import Any, Final, NamedTuple

import pytest

from penstock.processes.forked_nodes import FORKER

MARK: Final = "PENSTOCK_TEST_RUN"
"""The environment variable that processes inherit from the tests; a nested pytest appends to its value."""
CULPRIT: Final = "left_behind_by"
"""The user property of a report that names a test during which a leftover process appeared."""
LAST_WORDS_S: Final = 5.0
"""A process that ends by itself within this time is no leftover: its test has already stopped it."""
TERMINATE_S: Final = 3.0
"""The time between SIGTERM and SIGKILL of a process."""
COMMAND_CHARS: Final = 160
PROC: Final = "/proc"
POLL_S: Final = 0.02
ENDS_WITH_PYTEST: Final = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "pyspark-shell")
"""Words in the command lines of processes that a Python process starts once and keeps to its end."""


class Process(NamedTuple):
    """One process; its start in clock ticks distinguishes it from a later process with the same id."""

    pid: int
    started: int


class Stat(NamedTuple):
    """The fields of /proc/PID/stat for a process."""

    process: Process
    parent: int
    is_zombie: bool

    @property
    def is_child_of_pytest(self) -> bool:
        return self.parent == os.getpid()


class Snapshot:
    """The processes of this machine, each read at its first use."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode()
        self._stats: dict[int, Stat | None] = {}
        self._marked: dict[int, bool] = {}

    @cached_property
    def pids(self) -> set[int]:
        return {int(name) for name in os.listdir(PROC) if name.isdigit()}

    def ours(self, pids: Iterable[int]) -> dict[Process, list[Stat]]:
        """The running processes among *pids* that the tests started, each with itself and its ancestors."""
        found = {}
        for pid in pids:
            stat = self._stat(pid)
            if stat is None or stat.is_zombie or pid == os.getpid() or _forks_nodes(stat):
                continue
            lineage = self._lineage(stat)
            if lineage[-1].is_child_of_pytest or any(self._is_marked(each.process.pid) for each in lineage):
                found[stat.process] = lineage
        return found

    def _lineage(self, stat: Stat) -> list[Stat]:
        """A process and its ancestors, without this pytest, its forker and the machine's first process.

        A test is responsible for the nodes that it had forked, not for the forker, which serves all tests.
        """
        lineage = [stat]
        while lineage[-1].parent not in (os.getpid(), 0, 1):
            parent = self._stat(lineage[-1].parent)
            if parent is None or _forks_nodes(parent):
                break
            lineage.append(parent)
        return lineage

    def _stat(self, pid: int) -> Stat | None:
        if pid not in self._stats:
            self._stats[pid] = stat_of(pid)
        return self._stats[pid]

    def _is_marked(self, pid: int) -> bool:
        if pid not in self._marked:
            self._marked[pid] = self._mark in _read(pid, "environ")
        return self._marked[pid]


class Leftovers:
    """The processes that the tests of one pytest process started."""

    def __init__(self) -> None:
        self._mark = f"{os.getpid()}-{uuid.uuid4().hex}"
        self._listed: set[int] = set()
        self._appeared_in: dict[Process, str] = {}
        self._before: set[Process] = set()
        self._shared: set[Process] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        os.environ[MARK] = f"{os.environ.get(MARK, '')} {self._mark}".strip()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Record the processes that run before the first test, which no test has started."""
        snapshot = Snapshot(self._mark)
        self._listed = snapshot.pids
        self._before = set(snapshot.ours(snapshot.pids))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any]
    ) -> Generator[None, object | None, object | None]:
        if fixturedef.scope not in ("package", "session"):
            return (yield)
        before = self._running()
        try:
            return (yield)
        finally:
            self._shared |= self._running() - before

    # The outermost wrapper: the fixtures have been torn down when it reads the processes.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object | None, object | None]:
        try:
            return (yield)
        finally:
            self._note_new(item.nodeid)
            if nextitem is None or nextitem.path != item.path:
                self._end_leftovers(item, kept=self._before | (self._shared if nextitem else set()))

    def _note_new(self, nodeid: str) -> None:
        """Record the test during which each new process appeared."""
        snapshot = Snapshot(self._mark)
        new = snapshot.pids - self._listed
        self._listed = snapshot.pids
        for process in snapshot.ours(new):
            self._appeared_in[process] = nodeid

    def _end_leftovers(self, item: pytest.Item, kept: set[Process]) -> None:
        """End all processes except the *kept* ones and their descendants; fail the test if there are any."""
        deadline = time.monotonic() + LAST_WORDS_S
        while (left := self._left_behind(kept)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if not left:
            return
        some_test = f"a test of {item.nodeid.partition('::')[0]}"
        lines = ["tests left processes behind, which were ended now:"]
        for process in left:
            nodeid = self._appeared_in.get(process)
            lines.append(
                f"  pid {process.pid}: {_shown(process.pid)} (appeared during {nodeid or some_test})"
            )
            if nodeid is not None:
                item.user_properties.append((CULPRIT, nodeid))
        end(left)
        pytest.fail("\n".join(lines), pytrace=False)

    def _left_behind(self, kept: set[Process]) -> list[Process]:
        snapshot = Snapshot(self._mark)
        return sorted(
            process
            for process, lineage in snapshot.ours(snapshot.pids).items()
            if kept.isdisjoint(each.process for each in lineage) and not _ends_with_pytest(lineage[-1])
        )

    def _running(self) -> set[Process]:
        snapshot = Snapshot(self._mark)
        return set(snapshot.ours(snapshot.pids))


def culprits_of(report: pytest.TestReport) -> list[str]:
    """The tests that left behind the processes for which another test, the last of its module, failed."""
    return [str(value) for name, value in report.user_properties if name == CULPRIT]


def end(processes: Iterable[Process]) -> None:
    """Send SIGTERM to all, and SIGKILL to those that still run after `TERMINATE_S`."""
    running = _signal(processes, signal.SIGTERM)
    deadline = time.monotonic() + TERMINATE_S
    while running and time.monotonic() < deadline:
        time.sleep(POLL_S)
        running = [process for process in running if is_running(process)]
    _signal(running, signal.SIGKILL)


def _signal(processes: Iterable[Process], number: signal.Signals) -> list[Process]:
    """Send a signal to the processes that still run, and return these."""
    running = [process for process in processes if is_running(process)]
    for process in running:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            continue
    return running


def is_running(process: Process) -> bool:
    stat = stat_of(process.pid)
    return stat is not None and stat.process == process and not stat.is_zombie


def stat_of(pid: int) -> Stat | None:
    """The fields of a process from the kernel, or None once it has ended."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()  # proc(5), from the third field on
    if not fields:
        return None
    return Stat(Process(pid, int(fields[19])), int(fields[1]), fields[0] in (b"Z", b"X"))


def _shown(pid: int) -> str:
    text = " ".join(" ".join(_words(pid)).split())
    return text if len(text) <= COMMAND_CHARS else f"{text[:COMMAND_CHARS]}…"


def _ends_with_pytest(stat: Stat) -> bool:
    return stat.is_child_of_pytest and any(
        name in word for word in _words(stat.process.pid) for name in ENDS_WITH_PYTEST
    )


def _forks_nodes(stat: Stat) -> bool:
    """Whether a process is the one that `penstock.processes` forks nodes from."""
    return stat.is_child_of_pytest and FORKER in _words(stat.process.pid)


def _words(pid: int) -> list[str]:
    """The command line of a process."""
    return _read(pid, "cmdline").decode(errors="replace").split("\0")


def _read(pid: int, name: str) -> bytes:
    """A file of a process; empty if the process has ended or belongs to another user."""
    try:
        with open(f"{PROC}/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""
