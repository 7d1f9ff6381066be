"""Clients beyond their quotas, in virtual time: their answers, and when their connections are read again."""

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker_wire import batch_of, fetch_request, produce_request
from penstock.broker.network.connection import Connection
from penstock.broker.quotas.client_quotas import PERCENT_SECONDS_PER_NS
from penstock.metadata.image.client_quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    client_quota_entity,
    client_quota_record,
)
from penstock.protocol import api_keys
from penstock.protocol.codec import Message
from penstock.protocol.messages import (
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceResponse,
    RequestHeader,
    ResponseHeader,
)
from penstock.testing.simulator.layout import CLIENT_PORT, host_of
from virtual_time import VirtualNode, on_virtual_node

VERSIONS = {0: 9, 1: 12, 3: 12}
EVERYONE: dict[str, str | None] = {"user": None}

Story = Callable[[VirtualNode], Awaitable[None]]


def limit(node: VirtualNode, key: str, value: float | None, **entity: str | None) -> None:
    """Commit a quota, as the metadata log does. Without an entity it is that of all users."""
    names = {kind.replace("_", "-"): name for kind, name in entity.items()} or EVERYONE
    node.broker.image.client_quotas.replay(client_quota_record(client_quota_entity(names), key, value))
    node.broker.quotas.committed(0)


def records(node: VirtualNode, size_bytes: int) -> bytes:
    """A batch with one record of this size."""
    return batch_of(b"x" * size_bytes, timestamp=node.broker.clock_ms())


class RawClient:
    """A client that sends what it wants, when it wants. It does not heed throttle times."""

    def __init__(self, node: VirtualNode, client_id: str = "greedy") -> None:
        self._node = node
        self.client_id = client_id
        self._received = bytearray()
        self._sent: list[tuple[int, int]] = []

    async def connect(self) -> None:
        self._socket = await self._node.cluster.settings.network.connect(host_of(1), CLIENT_PORT)

    def frame(self, request: Message) -> bytes:
        version = VERSIONS[request.ID]
        header = RequestHeader(
            request_api_key=request.ID,
            request_api_version=version,
            correlation_id=7,
            client_id=self.client_id,
        )
        body = header.encode(api_keys.request_header_version(request.ID, version)) + request.encode(version)
        return struct.pack(">i", len(body)) + body

    def send(self, request: Message, *, answered: bool = True) -> int:
        """Send a request and return the size that counts against a quota."""
        frame = self.frame(request)
        self.send_bytes(frame)
        if answered:
            self._sent.append((request.ID, VERSIONS[request.ID]))
        return len(frame) - 4

    def send_bytes(self, data: bytes) -> None:
        assert self._socket.send(data) == len(data)

    async def receive(self) -> tuple[Message, int]:
        """The next response, and its size."""
        (size,) = struct.unpack(">i", await self._exactly(4))
        frame = await self._exactly(size)
        key, version = self._sent.pop(0)
        _, position = ResponseHeader.decode(api_keys.response_header_version(key, version), frame)
        return api_keys.response_class(key).decode(version, frame, position)[0], size

    async def ask(self, request: Message) -> Message:
        self.send(request)
        return (await self.receive())[0]

    async def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            chunk = bytearray(1 << 20)
            with contextlib.suppress(BlockingIOError):
                count = self._socket.recv_into(memoryview(chunk))
                assert count, "closed by the node"
                self._received += chunk[:count]
                continue
            await asyncio.sleep(0.001)
        found = bytes(self._received[:size])
        del self._received[:size]
        return found

    def close(self) -> None:
        self._socket.close()


async def raw_client(node: VirtualNode, client_id: str = "greedy") -> RawClient:
    client = RawClient(node, client_id)
    await client.connect()
    return client


def connections(node: VirtualNode) -> list[Connection]:
    return list(node.broker.server.connections.values())


def end_offset(node: VirtualNode, topic: str) -> int:
    replica = node.broker.replicas.get(topic, 0)
    assert replica is not None
    return replica.log.log_end_offset


def test_a_producer_is_answered_first_and_read_again_after_the_throttle_time(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        await node.create_topic(node.client("admin"), "t")
        limit(node, PRODUCER_BYTE_RATE, 1000)
        client = await raw_client(node)
        size_bytes = client.send(produce_request("t", records(node, 15_000)))
        answer, _ = await client.receive()
        assert isinstance(answer, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0
        # The rate is measured over at least 10 s: size / 10 s against 1000 B/s.
        assert answer.throttle_time_ms == round((size_bytes / 10 - 1000) / 1000 * 10_000)
        throttled_s = node.broker.loop.time()
        await client.ask(MetadataRequest(topics=[]))
        waited_ms = (node.broker.loop.time() - throttled_s) * 1000
        assert answer.throttle_time_ms - 100 < waited_ms < answer.throttle_time_ms + 100

    on_virtual_node(tmp_path, story)


def test_unanswered_requests_are_limited_and_wait_in_little_memory(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        await node.create_topic(node.client("admin"), "t")
        limit(node, PRODUCER_BYTE_RATE, 1000)
        client = await raw_client(node)
        for _ in range(20):
            client.send(produce_request("t", records(node, 6_000), acks=0), answered=False)
        await asyncio.sleep(1)
        (muted,) = (connection for connection in connections(node) if connection.is_muted)
        # Two are within 10,000 bytes in 10 s, or just above.
        assert end_offset(node, "t") == 2
        assert muted._buffer is None
        assert len(muted._parked) <= 18 * 6_200
        assert node.broker.server.request_memory.reserved_bytes == 0
        await asyncio.sleep(180)
        assert end_offset(node, "t") == 20
        assert not muted.is_muted

    on_virtual_node(tmp_path, story)


def test_a_frame_that_has_arrived_in_part_waits_as_well(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        await node.create_topic(node.client("admin"), "t")
        limit(node, PRODUCER_BYTE_RATE, 10_000)
        client = await raw_client(node)
        first = client.frame(produce_request("t", records(node, 150_000), acks=0))
        second = client.frame(produce_request("t", records(node, 100_000), acks=0))
        client.send_bytes(first + second[:30_000])
        await asyncio.sleep(1)
        (muted,) = (connection for connection in connections(node) if connection.is_muted)
        assert (muted._buffer, len(muted._parked)) == (None, 30_000)
        client.send_bytes(second[30_000:])
        await asyncio.sleep(2)
        assert end_offset(node, "t") == 1
        await asyncio.sleep(20)
        assert end_offset(node, "t") == 2

    on_virtual_node(tmp_path, story)


def test_memory_for_a_large_frame_stays_reserved_while_its_connection_is_muted(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        await node.create_topic(node.client("admin"), "t")
        client = await raw_client(node)
        await client.ask(MetadataRequest(topics=[]))
        (connection,) = (c for c in connections(node) if c.client_id == "greedy")
        frame = client.frame(produce_request("t", records(node, 100_000), acks=0))
        client.send_bytes(frame[:30_000])
        await asyncio.sleep(1)
        reserved_bytes = node.broker.server.request_memory.reserved_bytes
        assert reserved_bytes >= 100_000
        connection.mute(1000)
        client.send_bytes(frame[30_000:])
        await asyncio.sleep(0.9)
        assert node.broker.server.request_memory.reserved_bytes == reserved_bytes
        assert end_offset(node, "t") == 0
        await asyncio.sleep(0.2)
        assert node.broker.server.request_memory.reserved_bytes == 0
        assert end_offset(node, "t") == 1

    on_virtual_node(tmp_path, story)


def test_muted_requests_are_handled_although_the_client_has_left(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        await node.create_topic(node.client("admin"), "t")
        limit(node, PRODUCER_BYTE_RATE, 1000)
        client = await raw_client(node)
        for _ in range(5):
            client.send(produce_request("t", records(node, 6_000), acks=0), answered=False)
        client.close()
        await asyncio.sleep(60)
        assert end_offset(node, "t") == 5
        assert not any(connection.client_id == "greedy" for connection in connections(node))

    on_virtual_node(tmp_path, story)


def test_other_client_ids_do_not_evade_the_quota_of_a_user(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        await node.create_topic(node.client("admin"), "t")
        limit(node, PRODUCER_BYTE_RATE, 1000, user="ANONYMOUS")
        client = await raw_client(node)
        for number in range(10):
            client.client_id = f"id-{number}"
            client.send(produce_request("t", records(node, 6_000), acks=0), answered=False)
        await asyncio.sleep(1)
        assert end_offset(node, "t") == 2
        other = await raw_client(node, "another")
        answer = await other.ask(produce_request("t", records(node, 1)))
        assert isinstance(answer, ProduceResponse)
        assert answer.throttle_time_ms > 0

    on_virtual_node(tmp_path, story)


def test_a_throttled_fetch_is_empty_and_its_bytes_do_not_count(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        admin = node.client("admin")
        topic_id = await node.create_topic(admin, "t")
        for _ in range(3):
            await node.ask(admin, produce_request(topic_id, records(node, 6_000)), ProduceResponse)
        limit(node, CONSUMER_BYTE_RATE, 1000)
        client = await raw_client(node)

        async def fetch(offset: int, session: tuple[int, int]) -> tuple[FetchResponse, int]:
            client.send(fetch_request("t", {0: offset}, partition_max_bytes=7000, session=session))
            answer, size = await client.receive()
            assert isinstance(answer, FetchResponse)
            return answer, size

        first, _ = await fetch(0, (0, 0))
        assert first.throttle_time_ms == 0
        assert first.session_id > 0
        second, _ = await fetch(1, (first.session_id, 1))
        assert (second.session_id, second.responses) == (first.session_id, [])
        assert second.throttle_time_ms > 0
        # Throttled fetches are not charged: once the first one is out of the window, the records come.
        for epoch in range(2, 12):
            muted_s = node.broker.loop.time()
            later, _ = await fetch(1, (first.session_id, epoch))
            assert node.broker.loop.time() - muted_s > second.throttle_time_ms / 1000 - 0.1
            if not later.throttle_time_ms:
                break
            assert later.responses == []
            second = later
        assert len(later.responses[0].partitions[0].records or b"") > 6_000

    on_virtual_node(tmp_path, story)


def test_a_fetch_never_asks_for_more_than_its_quota_can_allow(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        admin = node.client("admin")
        topic_id = await node.create_topic(admin, "t")
        for _ in range(30):
            await node.ask(admin, produce_request(topic_id, records(node, 1_000)), ProduceResponse)
        limit(node, CONSUMER_BYTE_RATE, 1000, client_id="greedy")
        answer = await (await raw_client(node)).ask(fetch_request("t", {0: 0}))
        assert isinstance(answer, FetchResponse)
        assert answer.throttle_time_ms == 0
        assert 8_000 < len(answer.responses[0].partitions[0].records or b"") <= 10_000
        free = await (await raw_client(node, "modest")).ask(fetch_request("t", {0: 0}))
        assert isinstance(free, FetchResponse)
        assert len(free.responses[0].partitions[0].records or b"") > 30_000

    on_virtual_node(tmp_path, story)


def test_a_change_of_a_quota_reaches_live_connections(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        await node.create_topic(node.client("admin"), "t")
        client = await raw_client(node)
        request = produce_request("t", records(node, 15_000))

        async def throttle_ms() -> int:
            answer = await client.ask(request)
            assert isinstance(answer, ProduceResponse)
            return answer.throttle_time_ms

        assert await throttle_ms() == 0
        limit(node, PRODUCER_BYTE_RATE, 1000)
        assert await throttle_ms() > 0
        limit(node, PRODUCER_BYTE_RATE, 1_000_000)
        assert await throttle_ms() == 0
        limit(node, PRODUCER_BYTE_RATE, None)
        assert not node.broker.quotas.is_active
        assert await throttle_ms() == 0

    on_virtual_node(tmp_path, story)


def test_the_time_of_requests_is_limited_for_a_sample_at_most(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        limit(node, REQUEST_PERCENTAGE, 0.5)
        client = await raw_client(node)
        await client.ask(MetadataRequest(topics=[]))
        (metered,) = (c.metered for c in connections(node) if c.client_id == "greedy")
        assert metered is not None
        node.broker.quotas.transferred(metered, int(1000 / PERCENT_SECONDS_PER_NS))
        answer = await client.ask(MetadataRequest(topics=[]))
        assert isinstance(answer, MetadataResponse)
        assert answer.throttle_time_ms == 1000
        throttled_s = node.broker.loop.time()
        await client.ask(MetadataRequest(topics=[]))
        assert 0.9 < node.broker.loop.time() - throttled_s < 1.1

    on_virtual_node(tmp_path, story)


def test_the_quotas_of_clients_do_not_limit_followers(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        admin = node.client("admin")
        topic_id = await node.create_topic(admin, "t")
        await node.ask(admin, produce_request(topic_id, records(node, 60_000)), ProduceResponse)
        limit(node, CONSUMER_BYTE_RATE, 1000)
        request = fetch_request("t", {0: 0})
        request.replica_id = 2
        answer = await (await raw_client(node)).ask(request)
        assert isinstance(answer, FetchResponse)
        assert answer.throttle_time_ms == 0
        assert len(node.broker.quotas.fetch) == 0

    on_virtual_node(tmp_path, story)


@pytest.mark.parametrize("key", [PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE])
def test_other_requests_are_not_charged_bytes(tmp_path: Path, key: str) -> None:
    async def story(node: VirtualNode) -> None:
        limit(node, key, 1)
        client = await raw_client(node)
        for _ in range(10):
            answer = await client.ask(MetadataRequest(topics=[]))
            assert isinstance(answer, MetadataResponse)
            assert answer.throttle_time_ms == 0

    on_virtual_node(tmp_path, story)
