"""A Connect worker that runs nothing but its membership, in a thread, or as a program of its own.

As a program its argument is the bootstrap servers, and each line that it prints is what it runs now.
"""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection

from penstock.client.config import ClientConfig
from penstock.connect.group.assignment import Assignment, Configured, ConnectProtocol
from penstock.connect.group.settings import GroupSettings
from penstock.connect.group.worker_group import WorkerGroup
from penstock.connect.task_id import ConnectorTaskId

GROUP = "connect-group"
MAX_DELAY_MS = 60_000
TASKS = [ConnectorTaskId("orders", task) for task in range(10)]
CONFIGURED = Configured(7, {"orders": TASKS})


class Clock:
    """The time that the workers of a test share; it passes when the test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class Worker:
    """A worker in a thread of its own; *started* counts what all workers of the test run."""

    def __init__(
        self,
        servers: str,
        url: str,
        clock: Callable[[], int],
        *,
        started: Counter[str] | None = None,
        configured: Configured = CONFIGURED,
        latest: Configured | None = None,
        protocol: ConnectProtocol = ConnectProtocol.SESSIONED,
        group_id: str = GROUP,
        session_timeout_ms: int = 30_000,
    ) -> None:
        self.running: set[str] = set()
        self.received: list[Assignment] = []
        self.violations: list[str] = []
        self.refreshes = 0
        self.can_refresh = True
        self.configured = configured
        self.latest = latest or configured
        self._started = Counter() if started is None else started
        settings = GroupSettings(
            group_id=group_id,
            protocol=protocol,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=200,
            rebalance_timeout_ms=20_000,
            scheduled_rebalance_max_delay_ms=MAX_DELAY_MS,
        )
        config = ClientConfig.from_properties({"bootstrap.servers": servers})
        self.group = WorkerGroup(config, settings, url, lambda: self.configured, self, clock)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def delay_ms(self) -> int:
        return self.received[-1].delay_ms if self.received else 0

    def close(self) -> None:
        self._ends.set()
        self.group.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._ends.is_set():
            self.group.poll()
            if self.group.settle(self._refresh):
                self._start(self.group.assignment)
        self.group.close()

    def _refresh(self) -> bool:
        self.refreshes += 1
        if self.can_refresh:
            self.configured = self.latest
        return self.can_refresh

    def _start(self, assignment: Assignment | None) -> None:
        assert assignment is not None
        new = {*assignment.connectors, *map(str, assignment.tasks)} - self.running
        self._started.update(new)
        self.running |= new
        self.violations += [item for item in new if self._started[item] > 1]
        if not {*assignment.connectors, *map(str, assignment.tasks)} >= self.running:
            self.violations.append(f"{self.running} runs, but {assignment} is assigned")

    # The group calls these methods.

    def assigned(self, assignment: Assignment, generation: int) -> None:
        self.received.append(assignment)

    def revoked(self, leader: str, connectors: Collection[str], tasks: Collection[ConnectorTaskId]) -> None:
        stopped = {*connectors, *map(str, tasks)} & self.running
        self._started.subtract(stopped)
        self.running -= stopped


class PrintingWorker(Worker):
    def _start(self, assignment: Assignment | None) -> None:
        super()._start(assignment)
        print(*sorted(self.running), flush=True)


if __name__ == "__main__":
    PrintingWorker(sys.argv[1], "http://child:8083/", Clock(), session_timeout_ms=3_000)
    threading.Event().wait()
