"""Rounds of fencing: end the transactional producers of a source's former tasks, before new ones start.

An exactly-once source task writes records and offsets in transactions (KIP-618). A former task may live on in
a worker that has lost its membership, so the leader fences the producers of all former tasks, and records how
many producers the next round must fence. One round serves all tasks of a connector, which ask for it at the
same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.connect.herding.distributed.configurations import Configurations
from penstock.connect.herding.errors import Conflict
from penstock.connect.herding.requests import RequestQueue
from penstock.connect.stores.configs.records import Properties

Fence = Callable[[str, Properties, int], None]


@dataclass(frozen=True, slots=True)
class _Round:
    """A round that goes on, with the numbers of tasks to fence and to record."""

    connector: str
    to_fence: int
    to_record: int
    generation: int
    done: Future[None] = field(default_factory=Future)

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class ZombieFencing:
    """The rounds of one herder, which leads the group.

    Args:
        fence: fences so many producers of a connector; it blocks and may raise ConnectError.
    """

    def __init__(self, configurations: Configurations, requests: RequestQueue, fence: Fence) -> None:
        self._configurations = configurations
        self._requests = requests
        self._fence = fence
        self._lock = threading.Lock()
        self._rounds: dict[str, _Round] = {}

    def begin(self, connector: str) -> Future[None] | None:
        """Begin a round or join the present one, in the herder's thread; None if no producer is to be fenced.

        Raises ConnectError.
        """
        self._configurations.require_refresh("performing zombie fencing")
        known = self._configurations.known
        if connector not in known.pending_fencing:
            return None
        tasks, recorded = len(known.tasks(connector)), known.task_count_records.get(connector)
        if recorded is None or recorded == tasks == 1:
            # Nothing has run yet, or the only task fences its predecessor itself
            self._record(connector, tasks)
            return None
        with self._lock:
            present = self._rounds.get(connector)
            if present is not None:
                return present.done
            generation = known.task_config_generations.get(connector, 0)
            begun = self._rounds[connector] = _Round(connector, recorded, tasks, generation)
        properties = known.connector_configs[connector]
        name = f"connect fencing {connector}"
        threading.Thread(target=self._run, args=(begun, properties), name=name, daemon=True).start()
        return begun.done

    def abandon(self, connector: str) -> None:
        """Fail the present round of a connector that has new task configurations, from any thread."""
        with self._lock:
            present = self._rounds.get(connector)
            if present is not None:
                present.fail(
                    Conflict(
                        "Failed to complete zombie fencing because a new set of task configs was generated"
                    )
                )

    def _run(self, begun: _Round, properties: Properties) -> None:
        try:
            self._fence(begun.connector, properties, begun.to_fence)
            self._requests.submit(lambda: self._complete(begun)).result()
        except Exception as error:
            with self._lock:
                begun.fail(error)
        finally:
            with self._lock:
                del self._rounds[begun.connector]

    def _complete(self, begun: _Round) -> None:
        """Record the number of producers, in the herder's thread, unless the tasks have changed meanwhile."""
        self._configurations.require_refresh("recording the end of zombie fencing")
        if begun.generation < self._configurations.known.task_config_generations.get(begun.connector, 0):
            raise Conflict("Fencing failed because new task configurations were generated for the connector")
        if not begun.done.done():
            self._record(begun.connector, begun.to_record)
            with self._lock:
                if not begun.done.done():
                    begun.done.set_result(None)

    def _record(self, connector: str, tasks: int) -> None:
        self._configurations.write(
            f"writing a task count record for connector {connector} to the config topic",
            lambda: self._configurations.store.put_task_count_record(connector, tasks),
        )
