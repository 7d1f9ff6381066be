"""The cost of a process and all its descendants over time (Linux)."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Set
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Indices of fields after the command's name in /proc/PID/stat. The times are four: user and system of the
# process, and both of those children that it has waited for.
_PARENT, _TIMES, _STARTED, _RESIDENT = 1, 11, 19, 21


class TreeCost(NamedTuple):
    """Processor seconds since the tree's start, including ended processes, and the memory resident now."""

    cpu_s: float
    resident_bytes: int


class Sample(NamedTuple):
    time_s: float
    cost: TreeCost


class _Spent(NamedTuple):
    """The ticks of one process: its own, and those of children that it has waited for."""

    own: int
    waited: int


class ProcessTree:
    """A process and its descendants, which are listed again once a second and when one has ended.

    The cost of a process still counts after its end; if its parent has waited for it, it counts once.
    """

    def __init__(self, pid: int) -> None:
        self._root = pid
        self._pids: list[int] = []
        self._looked_s = float("-inf")
        self._spent: dict[tuple[int, str], _Spent] = {}
        self._unseen_ticks = 0

    def cost(self) -> TreeCost:
        """Return the cost until now. Raises ProcessLookupError if the root has ended."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= 1:
            self._look(now_s)
        found = {pid: _stat(pid) for pid in self._pids}
        if None in found.values():
            self._look(now_s)
            found = {pid: _stat(pid) for pid in self._pids}
        known = {(pid, fields[_STARTED]): fields for pid, fields in found.items() if fields is not None}
        if not known:
            raise ProcessLookupError(f"no process {self._root}")
        for process, fields in known.items():
            user, system, *waited = map(int, fields[_TIMES : _TIMES + 4])
            self._spent[process] = _Spent(user + system, sum(waited))
        pages = sum(int(fields[_RESIDENT]) for fields in known.values())
        return TreeCost(self._ticks(known.keys()) / _TICKS_PER_SECOND, pages * _PAGE_BYTES)

    def _ticks(self, running: Set[tuple[int, str]]) -> int:
        own = sum(spent.own for spent in self._spent.values())
        waited = sum(spent.waited for spent in self._spent.values())
        ended = sum(sum(spent) for process, spent in self._spent.items() if process not in running)
        # The other ticks of waited-for children belong to processes never seen. Their number must not shrink
        # when a process ends that its parent has not waited for.
        self._unseen_ticks = max(self._unseen_ticks, waited - ended)
        return own + self._unseen_ticks

    def _look(self, now_s: float) -> None:
        self._looked_s = now_s
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
                children.setdefault(int(fields[_PARENT]), []).append(int(entry.name))
        self._pids, coming = [], [self._root]
        while coming:
            pid = coming.pop()
            self._pids.append(pid)
            coming += children.get(pid, [])


class Sampler:
    """Samples the cost of a tree every `interval_s`, in a thread. A context manager."""

    def __init__(self, tree: ProcessTree, interval_s: float = 0.05) -> None:
        self._tree = tree
        self._interval_s = interval_s
        self._samples: list[Sample] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        if error is None:
            self._sample()

    def cpu_s(self, begin_s: float, end_s: float) -> float:
        """Processor seconds between two times of the wall clock."""
        return cpu_at(self._samples, end_s) - cpu_at(self._samples, begin_s)

    @property
    def peak_bytes(self) -> int:
        """The most memory of all processes together; pages they share count for each process."""
        return max(sample.cost.resident_bytes for sample in self._samples)

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                self._sample()
            except ProcessLookupError:
                return

    def _sample(self) -> None:
        self._samples.append(Sample(time.time(), self._tree.cost()))


def cpu_at(samples: list[Sample], time_s: float) -> float:
    """Processor seconds spent until a time, interpolated between two samples."""
    after = bisect_left(samples, time_s, key=lambda sample: sample.time_s)
    if after == 0:
        return samples[0].cost.cpu_s
    if after == len(samples):
        return samples[-1].cost.cpu_s
    left, right = samples[after - 1], samples[after]
    share = (time_s - left.time_s) / (right.time_s - left.time_s)
    return left.cost.cpu_s + share * (right.cost.cpu_s - left.cost.cpu_s)


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()  # the command's name, which comes before, may contain spaces
