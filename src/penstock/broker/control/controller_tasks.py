"""The periodic tasks of the active controller, as in Kafka.

They fence silent brokers, return partitions to their preferred leaders, elect leaders for partitions without
one if an unclean election is allowed, remove expired delegation tokens, and write records to an idle log to
show that it is alive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.metadata.controller.delegation_tokens import remove_expired_tokens
from penstock.metadata.controller.elections import balance_leaders, elect_unclean_leaders
from penstock.metadata.controller.registration import fence_one_stale_broker
from penstock.metadata.controller.state import ControllerState, Decision
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import NoOpRecord

if TYPE_CHECKING:
    from penstock.broker.control.host import ControlHost, DecidingController

log = logging.getLogger(__name__)

CHECKS_PER_SESSION: Final = 8
"""Liveness checks per session timeout; an expiry is noticed at most 1/8 of the timeout late."""

_FENCE: Final = "fence stale brokers"
_AT_ONCE_S: Final = 0.01
"""The pause before a task continues that had more to do than fits into one round."""


class _Task(NamedTuple):
    """A periodic task. The response of ``decide`` says whether there may be more to do at once."""

    name: str
    period_s: float
    decide: Callable[[ControllerState], Decision[bool]]


class ControllerTasks:
    """The timers of one active controller, from `start` to `stop`."""

    def __init__(self, host: ControlHost, controller: DecidingController) -> None:
        self._host = host
        self._controller = controller
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._late_ms: dict[str, int] = {}
        """How late each task's last timer fired, which is how long this process stood still and received
        nothing."""
        self._rounds: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        for task in self._tasks():
            self._schedule(task, task.period_s)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _tasks(self) -> list[_Task]:
        config = self._host.config
        session_s = config.get_int("broker.session.timeout.ms") / 1000
        tasks = [
            _Task(_FENCE, max(0.001, session_s / CHECKS_PER_SESSION), self._fence),
            _Task(
                "elect unclean leaders",
                config.get_int("unclean.leader.election.interval.ms") / 1000,
                elect_unclean_leaders,
            ),
            _Task(
                "expire delegation tokens",
                config.get_int("delegation.token.expiry.check.interval.ms") / 1000,
                lambda state: remove_expired_tokens(state, self._host.clock_ms()),
            ),
        ]
        if config.get_bool("auto.leader.rebalance.enable"):
            interval_s = config.get_int("leader.imbalance.check.interval.seconds")
            tasks.append(_Task("elect preferred leaders", interval_s, balance_leaders))
        idle_s = config.get_int("metadata.max.idle.interval.ms") / 1000
        if idle_s:
            tasks.append(_Task("write no-op record", idle_s, self._write_no_op))
        return tasks

    def _fence(self, state: ControllerState) -> Decision[bool]:
        deaf_ms = self._late_ms.pop(_FENCE, 0)
        if deaf_ms > state.heartbeats.session_timeout_ms // CHECKS_PER_SESSION:
            log.warning("the controller was stopped, sessions are extended by_ms=%d", deaf_ms)
            state.heartbeats.forgive(deaf_ms)
        return fence_one_stale_broker(state, self._controller.now_ms)

    def _write_no_op(self, state: ControllerState) -> Decision[bool]:
        """Write a no-op record that shows the log's followers that it is alive; without followers, none."""
        nodes = state.image.brokers.keys() | state.image.cluster.controllers.keys()
        records = [NoOpRecord()] if nodes - {self._host.node_id} else []
        return Decision([*records], False)

    def _schedule(self, task: _Task, in_s: float) -> None:
        if task.name in self._timers:
            self._timers[task.name].cancel()  # a timer left from an earlier term
        loop = self._host.loop
        due_s = loop.time() + in_s
        self._timers[task.name] = loop.call_at(due_s, partial(self._begin, task, due_s))

    def _begin(self, task: _Task, due_s: float) -> None:
        self._late_ms[task.name] = int((self._host.loop.time() - due_s) * 1000)
        running = self._host.loop.create_task(self._run(task))
        self._rounds.add(running)
        running.add_done_callback(self._rounds.discard)

    async def _run(self, task: _Task) -> None:
        again = False
        try:
            again = await self._controller.submit(task.decide)
        except KafkaError as error:
            log.warning("controller task failed task=%r error=%s", task.name, error)
        except Exception:
            log.exception("controller task failed task=%r", task.name)
        if self._controller.is_active and task.name in self._timers:
            self._schedule(task, _AT_ONCE_S if again else task.period_s)
