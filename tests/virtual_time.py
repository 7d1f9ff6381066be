"""Scenarios on the simulator's event loop, where time is virtual.

A pause costs no real time there, and work takes no virtual time. So a test may say exactly when something
happens, and it finds the same on every machine.
"""

import gc
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final, TypeVar, cast

from penstock.broker.network.server import ServerLimits
from penstock.broker.node import Broker
from penstock.broker.setup.environment import Environment
from penstock.metadata.configs import BrokerConfig, Listener
from penstock.protocol.codec import Message
from penstock.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from penstock.testing.simulator.clients.client import Address, Client
from penstock.testing.simulator.cluster import SimulatedCluster
from penstock.testing.simulator.layout import CLIENT_PORT, Layout, host_of
from penstock.testing.simulator.loop import VirtualLoop
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.scenario import Scenario
from penstock.testing.simulator.workers import VirtualExecutor

R = TypeVar("R", bound=Message)
WORK_S: Final = 0.0001
"""The virtual time that a piece of work takes in a virtual thread."""


class VirtualMachine(Environment):
    """The machine of a node on a virtual loop: the clock and the threads are virtual, the disk is real.

    Its wall clock starts at the real time, because the tests' records have the current date, and advances
    with the loop's time.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.rng = Random(1)
        self._loop = loop
        self._network = Network(loop, Random(1))
        self._began_ms = time.time_ns() // 1_000_000 - int(loop.now_s * 1000)
        self.dial = self._network.dial()
        self.log_workers = lambda count: self.workers(count, "log-manager")

    def clock_ms(self) -> int:
        return self._began_ms + int(self._loop.now_s * 1000)

    def workers(self, count: int, name: str) -> Executor:
        return VirtualExecutor(self._loop, count, lambda: WORK_S)

    def bind(self, listener: Listener, limits: ServerLimits) -> socket.socket:
        return cast("socket.socket", self._network.bind(listener.host or "0.0.0.0", listener.port))


def run_virtually(story: Coroutine[object, object, None]) -> None:
    """Run a scenario in virtual time. Nodes of `in_process` then run on a virtual machine."""
    loop = VirtualLoop(Random(1))
    try:
        with loop.stopped_stopwatches():
            loop.run_until_complete(story)
    finally:
        loop.abandon()
        loop.close()


class VirtualNode:
    """One node of the simulator, and the clients of a test."""

    def __init__(self, loop: VirtualLoop, directory: Path, properties: dict[str, str]) -> None:
        scenario = replace(
            Scenario.of(Random(1)), layout=Layout((1,), (1,)), segment_bytes=1_000_000, log_directories=1
        )
        self.cluster = SimulatedCluster(loop, directory, scenario, Random(1))
        self._node = self.cluster.nodes[1]
        added = {name.replace("_", "."): value for name, value in properties.items()}
        self._node.config = BrokerConfig.from_properties({**self._node.config.static, **added})

    @property
    def broker(self) -> Broker:
        """The running node."""
        assert self._node.broker is not None
        return self._node.broker

    async def start(self) -> None:
        """Start the node and wait until it serves clients."""
        self._node.start()
        await self.cluster.until("the node is up", lambda: bool(self.cluster.up), 30)

    def client(self, name: str) -> Client:
        """A client with a connection of its own."""
        return Client(self.cluster.settings, name, Random(2))

    async def ask(self, client: Client, request: Message, response_type: type[R]) -> R:
        """The node's answer to a request. Raises NoAnswer."""
        return await client.ask(Address(1, host_of(1), CLIENT_PORT), request, response_type, 20_000)

    async def create_topic(self, client: Client, name: str) -> bytes:
        """Create a topic with one partition and return its id."""
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        result = (await self.ask(client, request, CreateTopicsResponse)).topics[0]
        assert result.error_code == 0, result.error_message
        return result.topic_id


def on_virtual_node(
    directory: Path, scenario: Callable[[VirtualNode], Awaitable[None]], **properties: str
) -> None:
    """Start a node in virtual time and run a scenario on it; `properties` have underscores for dots."""
    loop = VirtualLoop(Random(3))
    gc.disable()  # objects of machines that have died must not run their finalizers
    try:
        with loop.stopped_stopwatches():
            node = VirtualNode(loop, directory, properties)

            async def run() -> None:
                await node.start()
                await scenario(node)

            loop.run_until_complete(run())
    finally:
        loop.abandon()
        loop.close()
        gc.enable()
