"""The parts of an application that a Spark worker process keeps across batches: code, tasks, state, tables.

Spark reuses its processes, for one application after another and for several at a time. Everything of one
start is kept together, because tasks refer to the stores of global tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.spark.source.checkpointed import Checkpointed
from penstock.spark.streams.planning.plan import StreamsPlan, plan_from_text
from penstock.spark.streams.tasks.global_tables import GlobalTables, ends_named_by
from penstock.spark.streams.tasks.map_side import MapSide
from penstock.spark.streams.tasks.runner import TaskRunner

_STARTS_MAX: Final = 8
"""The number of application starts for which a process keeps its data in memory."""


class Worker:
    """This process's part of one start of an application."""

    def __init__(self, plan: StreamsPlan) -> None:
        self.plan = plan
        self.map_side = MapSide(plan)
        self.tasks = TaskRunner(plan)
        self._tables = GlobalTables(plan) if plan.topology.globals else None

    def global_stores(self, ends: Checkpointed) -> Mapping[str, Any] | None:
        """Return the stores of global tables, read up to these offsets. Raises ClientError."""
        if self._tables is None:
            return None
        self._tables.advance(ends)
        return self._tables.stores

    def global_stores_now(self) -> tuple[Mapping[str, Any] | None, str]:
        """Return the stores read up to their topics' current ends, and the note with these offsets.

        This is for records that no plan of a batch covers. Raises ClientError.
        """
        if self._tables is None:
            return None, ""
        ends = self._tables.ends()
        return self.global_stores(ends), json.dumps(ends.to_json(), separators=(",", ":"))

    def global_stores_of(self, packed: Iterable[bytes]) -> Mapping[str, Any] | None:
        """Return the stores read up to the offsets that a batch's blocks name."""
        if self._tables is None:
            return None
        for ends in ends_named_by(packed):
            self._tables.advance(ends)
        return self._tables.stores


_workers: dict[str, Worker] = {}


def worker_for(plan_text: str) -> Worker:
    """Return the worker of a plan, the same one for every batch."""
    worker = _workers.pop(plan_text, None)
    if worker is None:
        plan = plan_from_text(plan_text)
        earlier = [text for text, known in _workers.items() if _is_restart(plan, known.plan)]
        for text in earlier:
            del _workers[text]
        while len(_workers) >= _STARTS_MAX:
            del _workers[next(iter(_workers))]
        worker = Worker(plan)
    _workers[plan_text] = worker  # the most recently used worker is the last
    return worker


def _is_restart(plan: StreamsPlan, earlier: StreamsPlan) -> bool:
    """Whether the plan replaces the earlier start, so that its state in memory is no longer needed."""
    same_name = plan.topology.application == earlier.topology.application
    return same_name and plan.sink.checkpoint == earlier.sink.checkpoint
