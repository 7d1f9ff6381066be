"""A simulated cluster: its nodes, network and clients, and the errors in the simulation itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

from penstock.metadata.configs.support import RACK_AWARE_SELECTOR
from penstock.testing.crash_files import Died
from penstock.testing.simulator.access import LISTENER, PROPERTIES, Access
from penstock.testing.simulator.clients.client import Address, ClientSettings
from penstock.testing.simulator.history import History, Violation
from penstock.testing.simulator.layout import CLIENT_PORT, host_of
from penstock.testing.simulator.loop import VirtualLoop
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.nodes import VirtualNode
from penstock.testing.simulator.scenario import Scenario
from penstock.testing.simulator.topics import Topics

log = logging.getLogger(__name__)

FASTER: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "300",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "1500",
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.election.backoff.max.ms": "400",
    "controller.quorum.fetch.timeout.ms": "800",
    "controller.quorum.request.timeout.ms": "600",
    # By default a node without a leader asks every voter each 20 ms.
    "controller.quorum.retry.backoff.ms": "80",
    "offsets.topic.num.partitions": "2",
    "offsets.commit.timeout.ms": "1500",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "1000",
    "leader.imbalance.check.interval.seconds": "2",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.cleaner.dedupe.buffer.size": "2000000",
    "log.roll.ms": "2000",
    "log.segment.delete.delay.ms": "2000",
    "log.retention.check.interval.ms": "1500",
    "penstock.metrics.port": "-1",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "3000",
    "replica.selector.class": RACK_AWARE_SELECTOR,
    "metadata.log.max.record.bytes.between.snapshots": "6000",
    "internal.metadata.log.segment.bytes": "4000",
}
"""Shorter times than by default, so that more happens per second."""


class SimulatedCluster:
    """All nodes, by id, with their network, history and topics."""

    def __init__(self, loop: VirtualLoop, directory: Path, scenario: Scenario, rng: Random) -> None:
        self.loop = loop
        self.rng = rng
        self.network = Network(loop, Random(rng.getrandbits(64)))
        self.history = History()
        self.topics = Topics(self.history)
        self.access = Access()
        self.failures: list[BaseException] = []
        self.layout = layout = scenario.layout
        common = {
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": (
                f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            **FASTER,
            **(PROPERTIES if scenario.has_guests else {}),
        }
        self.nodes = {
            node_id: VirtualNode(
                loop,
                self.network,
                directory / f"node{node_id}",
                node_id,
                {**common, **layout.properties(node_id, guests=scenario.has_guests)},
                scenario.log_directories,
                rng,
                layout.format,
            )
            for node_id in layout.nodes
        }
        self.settings = ClientSettings(
            loop,
            self.network,
            self.history,
            self.topics,
            {node_id: Address(node_id, host_of(node_id), CLIENT_PORT) for node_id in layout.brokers},
        )
        loop.set_exception_handler(self._on_exception)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Record an unhandled exception of a callback or task as a failure, except the death of a process."""
        error = context.get("exception")
        if isinstance(error, Died) or "destroyed" in context["message"]:
            return
        failure = error if isinstance(error, BaseException) else AssertionError(context["message"])
        log.error("unhandled exception in a callback or task message=%s", context["message"], exc_info=error)
        self.failures.append(failure)

    async def until(
        self,
        what: str | Callable[[], str],
        condition: Callable[[], bool],
        timeout_s: float,
    ) -> None:
        """Wait for the condition; raise a Violation with `what` if it is not true in time."""
        deadline_s = self.loop.now_s + timeout_s
        while not condition():
            self.check()
            if self.loop.now_s > deadline_s:
                raise Violation(f"not within {timeout_s:g} s: {what if isinstance(what, str) else what()}")
            await asyncio.sleep(0.1)

    def check(self) -> None:
        """Raise the first recorded failure."""
        if self.failures:
            raise self.failures[0]

    @property
    def up(self) -> list[VirtualNode]:
        return [node for node in self.nodes.values() if node.is_up]
