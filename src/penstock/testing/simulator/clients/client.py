"""The base of all clients: find leaders and coordinators, send requests, retry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Final, NamedTuple, TypeVar

from penstock.broker.peers import Dial, Peer, PeerError, PeerSettings
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from penstock.testing.simulator.history import History, Partition, Violation
from penstock.testing.simulator.loop import Machine, VirtualLoop
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.topics import Topics

R = TypeVar("R", bound=Message)

BACKOFF_S: Final = 0.1
REQUEST_TIMEOUT_MS: Final = 2_000

GROUP: Final = 0
TRANSACTION: Final = 1


class Address(NamedTuple):
    node_id: int
    host: str
    port: int


class Leader(NamedTuple):
    address: Address
    epoch: int


class NoAnswer(Exception):
    """A request may or may not have had an effect, or no node to ask is known. Retry."""


class Gone(Exception):
    """The topic was deleted, and it is unknown whether records sent to it were ever written."""


class ClientSettings(NamedTuple):
    """The settings that all clients share."""

    loop: VirtualLoop
    network: Network
    history: History
    topics: Topics
    bootstrap: Mapping[int, Address]
    """Brokers by their ids."""


class Client:
    """A client with a unique `name`, on its own machine."""

    def __init__(self, settings: ClientSettings, name: str, rng: Random) -> None:
        self.settings = settings
        self.name = name
        self.rng = rng
        self.loop = settings.loop
        self.history = settings.history
        number = len(name) + rng.randrange(10_000)
        self.machine: Machine = settings.loop.machine(
            name, f"10.1.{number % 251}.{number % 241}", 1 + rng.uniform(-1e-3, 1e-3)
        )
        self.leaders: dict[Partition, Leader] = {}
        self._newest_epochs: dict[Partition, int] = {}
        """The newest leader epoch seen of each partition: like Kafka's clients, it ignores older leaders."""
        self._peers: dict[Address, Peer] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        self.task: asyncio.Task[None] | None = None
        self.stopping = False

    def start(self) -> None:
        self.loop.on(self.machine, self._begin)

    def _begin(self) -> None:
        self.task = self.loop.create_task(self.run(), name=self.name)

    async def run(self) -> None:
        """Do the client's work until it is done."""
        raise NotImplementedError

    async def pause(self, seconds: float = BACKOFF_S) -> None:
        await asyncio.sleep(seconds * self.rng.uniform(0.5, 1.5))

    def dial(self) -> Dial:
        """The way in which this client opens connections."""
        return self.settings.network.dial()

    async def ask(
        self, address: Address, request: Message, response_type: type[R], timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> R:
        """Send a request and return its response. Raises NoAnswer."""
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = Peer(
                self.dial(),
                address.host,
                address.port,
                node_id=address.node_id,
                client_id=self.name,
                rng=self.rng,
                settings=PeerSettings(setup_timeout_ms=1_000),
            )
        try:
            return await peer.call(request, response_type, timeout_ms)
        except PeerError as error:
            raise NoAnswer(str(error)) from None

    async def refresh(self, *topics: str) -> None:
        """Ask any node for the leaders of these topics. Raises NoAnswer."""
        address = self.rng.choice(list(self.settings.bootstrap.values()))
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
            allow_auto_topic_creation=False,
        )
        response = await self.ask(address, request, MetadataResponse)
        nodes = {node.node_id: Address(node.node_id, node.host, node.port) for node in response.brokers}
        for topic in response.topics:
            if topic.error_code or topic.name is None:
                continue
            for found in topic.partitions:
                partition = Partition(topic.name, found.partition_index, topic.topic_id)
                newest = self._newest_epochs.get(partition, found.leader_epoch)
                if found.leader_id in nodes and found.leader_epoch >= newest:
                    self._newest_epochs[partition] = found.leader_epoch
                    self.leaders[partition] = Leader(nodes[found.leader_id], found.leader_epoch)

    async def leader(self, partition: Partition, *, refresh: bool) -> Leader:
        """The partition's leader; ``refresh`` refreshes the metadata first. Raises NoAnswer, Gone."""
        if refresh or partition not in self.leaders:
            if self.is_doomed(partition):
                self.leaders.pop(partition, None)
            await self.refresh(partition.topic)
        if partition not in self.leaders:
            if self.is_doomed(partition):
                raise Gone
            raise NoAnswer(f"no known leader of {partition}")
        return self.leaders[partition]

    def is_doomed(self, partition: Partition) -> bool:
        """Whether a client has requested to delete its topic."""
        return self.settings.topics.is_doomed(partition)

    async def coordinator(self, key_type: int, key: str, *, refresh: bool) -> Address:
        """The coordinator of a key; ``refresh`` looks it up again. Raises NoAnswer."""
        found = self._coordinators.get((key_type, key))
        if found is not None and not refresh:
            return found
        address = self.rng.choice(list(self.settings.bootstrap.values()))
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        response = await self.ask(address, request, FindCoordinatorResponse)
        answer = response.coordinators[0]
        if answer.error_code:
            raise NoAnswer(f"no coordinator of {key}: {ErrorCode.of(answer.error_code).name}")
        found = self._coordinators[key_type, key] = Address(answer.node_id, answer.host, answer.port)
        return found

    def unexpected(self, what: str, code: int) -> Violation:
        return Violation(f"{self.name}: {what} was answered {ErrorCode.of(code).name}")
