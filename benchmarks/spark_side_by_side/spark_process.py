"""The process with the session, seen from outside: it receives queries and returns batches and costs."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from side_by_side.session import RunFailed
from spark_side_by_side.process_tree import ProcessTree, Sampler
from spark_side_by_side.queries import Query
from spark_side_by_side.sides import Side

STOP_TIMEOUT_S = 30
BENCHMARKS = Path(__file__).parents[1]


class Batch(NamedTuple):
    """One micro-batch from Spark's progress; times are in seconds since 1970."""

    began_s: float
    took_ms: float
    rows: int
    phases_ms: Mapping[str, float]

    @property
    def ended_s(self) -> float:
        return self.began_s + self.took_ms / 1000


class Steady(NamedTuple):
    """The total of several batches in a row, including planning, checkpoints and the time between them."""

    rows: int
    seconds: float
    cpu_s: float
    batch_ms: float
    peak_bytes: int


class SparkProcess:
    """A session on one side. A context manager; its files are deleted at the end."""

    def __init__(self, side: Side, servers: str, jars: Sequence[Path], directory: Path) -> None:
        self._side = side
        self._servers = servers
        self._jars = jars
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        words = [self._side.name, self._servers, ",".join(map(str, self._jars)), str(self._directory)]
        with (self._directory / "spark.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spark_side_by_side.driver", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
            )
        self._answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        assert process is not None
        try:
            process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def tree(self) -> ProcessTree:
        assert self._process is not None
        return ProcessTree(self._process.pid)

    def run(self, query: Query, leave_out: int) -> Steady:
        """Run a query to its end, and return the figures of its batches except the first `leave_out`.

        Raises RunFailed.
        """
        with Sampler(self.tree) as sampler:
            self._say(query, to_the_end=True)
            batches = self._batches()
        return steady(batches, sampler, leave_out)

    @contextmanager
    def running(self, query: Query) -> Iterator[None]:
        """Run a query during the block. Raises RunFailed."""
        self._say(query, to_the_end=False)
        self._answer()
        try:
            yield
        finally:
            self._write("{}")
            self._batches()

    def _say(self, query: Query, *, to_the_end: bool) -> None:
        self._write(json.dumps({"query": asdict(query), "to_the_end": to_the_end}))

    def _write(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _batches(self) -> list[Batch]:
        return [Batch(**fields) for fields in self._answer()["batches"]]

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RunFailed(f"the Spark process ended with code {self._process.wait()}: {self._log_tail()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RunFailed(answer["error"])
        return answer

    def _log_tail(self) -> str:
        return (self._directory / "spark.log").read_text(errors="replace")[-2000:]


def environment() -> dict[str, str]:
    """Return our environment, with this package on the path of the child and of Spark's Python workers.

    New workers may reuse compiled modules, as with an installed Penstock.
    """
    paths = [str(BENCHMARKS), *filter(None, [os.environ.get("PYTHONPATH")])]
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**ours, "PYTHONPATH": os.pathsep.join(paths)}


def steady(batches: Sequence[Batch], sampler: Sampler, leave_out: int) -> Steady:
    """Sum up the batches with rows except the first `leave_out`. Raises RunFailed if none is left."""
    full = [batch for batch in batches if batch.rows]
    counted = full[leave_out:]
    if not counted:
        raise RunFailed(f"{len(full)} batches had rows, expected more than {leave_out}")
    begin_s, end_s = counted[0].began_s, counted[-1].ended_s
    return Steady(
        rows=sum(batch.rows for batch in counted),
        seconds=end_s - begin_s,
        cpu_s=sampler.cpu_s(begin_s, end_s),
        batch_ms=statistics.median(batch.took_ms for batch in counted),
        peak_bytes=sampler.peak_bytes,
    )
