"""Connections: order, pipelining, limits, and malformed input."""

import asyncio
import contextlib
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_wire import Wire, batch_of, fetch_request, produce_request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceResponse,
)
from penstock.testing import Cluster
from virtual_time import VirtualNode, on_virtual_node
from waiting import wait_until

StartNode = Callable[..., Cluster]
FUZZ_SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED") or random.randrange(2**32))
FUZZ_FRAMES = int(os.environ.get("PENSTOCK_FUZZ_FRAMES", "300"))


def is_alive(node: Cluster) -> bool:
    with Wire(node.bootstrap_servers) as wire:
        return wire.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


# Order


def test_responses_leave_in_the_order_of_requests(wire: Wire, topic: str) -> None:
    wire.send(fetch_request(topic, {0: 0}, max_wait_ms=20_000), 12)
    wire.send(ApiVersionsRequest(), 0)
    wire.send(produce_request(topic, batch_of(b"silent"), acks=0), 9, answered=False)
    wire.send(produce_request(topic, batch_of(b"loud")), 9)
    by_time = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=0)
    wire.send(
        ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[by_time])]
        ),
        7,
    )
    wire.send(MetadataRequest(topics=[]), 9)
    assert wire.receive(FetchResponse).responses[0].partitions[0].error_code == 0
    assert wire.receive(ApiVersionsResponse).error_code == 0
    assert wire.receive(ProduceResponse).responses[0].partition_responses[0].base_offset == 1
    assert wire.receive(ListOffsetsResponse).topics[0].partitions[0].offset == 0
    assert wire.receive(MetadataResponse).topics == []


def test_thousands_of_pipelined_requests(wire: Wire, topic: str) -> None:
    total = 3000
    frames = bytearray()
    for number in range(total):
        frame, *sent = wire.frame(produce_request(topic, batch_of(b"%d" % number)), 9)
        frames += frame
        wire._sent.append((sent[0], sent[1], sent[2]))
    wire.socket.sendall(frames)
    offsets = [wire.receive(ProduceResponse).responses[0].partition_responses[0] for _ in range(total)]
    assert [answer.base_offset for answer in offsets] == list(range(total))
    assert wire.values(topic) == [b"%d" % number for number in range(total)]


def test_what_was_sent_before_closing_is_handled(wire: Wire, topic: str, node: Cluster) -> None:
    with Wire(node.bootstrap_servers) as leaving:
        for number in range(500):
            leaving.send(produce_request(topic, batch_of(b"%d" % number), acks=0), 9, answered=False)
    wait_until(lambda: len(wire.values(topic)) >= 500)


def test_frames_byte_by_byte(wire: Wire) -> None:
    frame, *sent = wire.frame(ApiVersionsRequest(), 0)
    wire._sent.append((sent[0], sent[1], sent[2]))
    for byte in frame:
        wire.socket.sendall(bytes([byte]))
        time.sleep(0.0005)  # so that most of them arrive alone
    assert wire.receive(ApiVersionsResponse).error_code == 0


@pytest.mark.parametrize("size", [100_000, 262_130, 262_144, 600_000, 1_000_000])
def test_frames_larger_than_a_buffer(wire: Wire, topic: str, size: int) -> None:
    value = os.urandom(size)
    for _ in range(3):
        wire.send(produce_request(topic, batch_of(value)), 9)
    for offset in range(3):
        answer = wire.receive(ProduceResponse).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, offset)
    assert wire.values(topic) == [value] * 3


def test_a_client_that_reads_nothing_is_held_back(wire: Wire, topic: str, node: Cluster) -> None:
    wire.produce(topic, batch_of(b"x" * 900_000))
    with Wire(node.bootstrap_servers) as greedy:
        greedy.socket.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            for _ in range(200_000):
                greedy.send(fetch_request(topic, {0: 0}), 12)
                sent += 1
        assert sent < 200_000, "TCP should push back"
        assert is_alive(node)
        greedy.socket.settimeout(60)
        for _ in range(20):
            assert len(greedy.receive(FetchResponse).responses[0].partitions[0].records or b"") > 900_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/net/tcp")
def test_what_cannot_be_sent_waits_in_the_node_not_in_the_kernel(wire: Wire, topic: str) -> None:
    wire.produce(topic, batch_of(b"x" * 900_000))
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    for _ in range(8):
        wire.send(fetch_request(topic, {0: 0}), 12)
    wait_until(lambda: queued_for(wire.socket))
    with contextlib.suppress(TimeoutError):
        wire.socket.settimeout(0.5)
        wire.socket.recv(8 << 20, socket.MSG_PEEK | socket.MSG_WAITALL)
    assert 0 < queued_for(wire.socket) < 512 << 10
    wire.socket.settimeout(60)
    for _ in range(8):
        assert len(wire.receive(FetchResponse).responses[0].partitions[0].records or b"") > 900_000


def queued_for(client: socket.socket) -> int:
    """The number of bytes that the kernel buffers for this client, sent or unsent."""
    peer, own = client.getpeername()[1], client.getsockname()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        if (int(local.split(":")[1], 16), int(remote.split(":")[1], 16)) == (peer, own):
            return int(queues.split(":")[0], 16)
    raise AssertionError("no such connection")


def test_many_large_answers_to_a_fast_reader(wire: Wire, topic: str) -> None:
    """Requests delayed by the size of answers continue even if the socket accepts all answers at once."""
    wire.produce(topic, batch_of(b"x" * 900_000))
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    frames = bytearray()
    for _ in range(60):
        frame, *sent = wire.frame(fetch_request(topic, {0: 0}), 12)
        frames += frame
        wire._sent.append((sent[0], sent[1], sent[2]))
    wire.socket.sendall(frames)
    for _ in range(60):
        assert len(wire.receive(FetchResponse).responses[0].partitions[0].records or b"") > 900_000


def test_a_flood_does_not_starve_others(wire: Wire, topic: str, node: Cluster) -> None:
    """The node answers other clients repeatedly while it still has requests of the flood to handle."""
    newest = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    how_far = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[newest])]
    )
    frame, *_ = wire.frame(produce_request(topic, batch_of(b"x"), acks=0), 9)
    with Wire(node.bootstrap_servers) as flooding:
        flooding.socket.setblocking(False)
        flood = frame * 20_000
        sent = answered_meanwhile = 0

        def are_answered() -> bool:
            nonlocal sent, answered_meanwhile
            with contextlib.suppress(BlockingIOError):
                sent += flooding.socket.send(flood[sent % len(frame) :])
            handled = wire.ask(how_far, ListOffsetsResponse, 7).topics[0].partitions[0].offset
            answered_meanwhile += handled < sent // len(frame)
            return answered_meanwhile == 10

        wait_until(are_answered, poll_interval_s=0)


# Versions


def test_a_too_new_api_versions_is_answered_in_version_0(wire: Wire) -> None:
    header = struct.pack(">hhih", 18, 99, 4711, -1)
    wire.socket.sendall(struct.pack(">i", len(header) + 3) + header + b"\x00\x00\x00")
    frame = wire.receive_frame()
    assert struct.unpack_from(">i", frame) == (4711,)
    response, _ = ApiVersionsResponse.decode(0, frame, 4)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    (api,) = response.api_keys
    assert (api.api_key, api.min_version) == (18, 0)


@pytest.mark.parametrize(
    ("api_key", "version"), [(0, 2), (1, 3), (1, 99), (4, 0), (22, 6), (999, 0), (-1, 0)]
)
def test_other_unserved_versions_close_the_connection(
    wire: Wire, node: Cluster, api_key: int, version: int
) -> None:
    header = struct.pack(">hhih", api_key, version, 1, -1)
    wire.socket.sendall(struct.pack(">i", len(header)) + header)
    assert wire.is_closed()
    assert is_alive(node)


def test_produce_is_advertised_from_version_0(wire: Wire) -> None:
    assert advertised(wire)[ApiKey.PRODUCE] == (0, 13)


def test_an_unstable_version_is_served_where_the_node_is_set_so(
    wire: Wire, start_node: Callable[..., Cluster]
) -> None:
    assert advertised(wire)[ApiKey.INIT_PRODUCER_ID] == (0, 5)
    node = start_node(unstable_api_versions_enable="true")
    with Wire(node.bootstrap_servers) as connection:
        assert advertised(connection) == advertised(wire) | {ApiKey.INIT_PRODUCER_ID: (0, 6)}
        request = InitProducerIdRequest(transactional_id=None)
        assert connection.ask(request, InitProducerIdResponse, 6).error_code == ErrorCode.NONE


def advertised(wire: Wire) -> dict[int, tuple[int, int]]:
    request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
    response = wire.ask(request, ApiVersionsResponse, 3)
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


# Hostile input


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1) + b"x" * 20,
        struct.pack(">i", 0) + b"x" * 20,
        struct.pack(">i", 2**31 - 1) + b"x" * 20,
        struct.pack(">i", 7) + b"x" * 20,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
        struct.pack(">ihhih", 10, 18, 0, 1, 2**15 - 1),
        struct.pack(">ihhihi", 14, 0, 9, 1, -1, 0x7FFFFFFF),
        struct.pack(">ihhih", 2_000_013, 3, 12, 1, -1) + b"\x80\x80\x3d" + b"\0" * 2_000_000,
        struct.pack(">ihhihi", 2_000_012, 3, 8, 1, -1, 666_666) + b"\0\1x" * 666_666,
    ],
    ids=[
        "negative",
        "zero",
        "huge",
        "short",
        "http",
        "tls",
        "client id beyond the frame",
        "array of 2^31",
        "a million tagged fields",
        "more names than one request may hold",
    ],
)
def test_hostile_frames_close_the_connection_and_harm_nobody(wire: Wire, node: Cluster, sent: bytes) -> None:
    with Wire(node.bootstrap_servers) as hostile:
        hostile.socket.sendall(sent)
        assert hostile.is_closed()
    assert wire.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_responses_before_a_hostile_frame_still_arrive(wire: Wire) -> None:
    wire.send(ApiVersionsRequest(), 0)
    wire.socket.sendall(struct.pack(">i", -5))
    assert wire.receive(ApiVersionsResponse).error_code == 0
    assert wire.is_closed()


def test_random_frames(wire: Wire, node: Cluster, topic: str) -> None:
    """Send noise, truncated requests and bit flips. PENSTOCK_FUZZ_SEED repeats a run, _FRAMES prolongs it."""
    print(f"PENSTOCK_FUZZ_SEED={FUZZ_SEED}")
    rng = random.Random(FUZZ_SEED)
    real = [
        wire.frame(produce_request(topic, batch_of(b"x" * 100)), rng.randrange(3, 13))[0],
        wire.frame(fetch_request(topic, {0: 0}), 12)[0],
        wire.frame(MetadataRequest(topics=None), 12)[0],
        wire.frame(ApiVersionsRequest(), 3)[0],
    ]
    for _ in range(FUZZ_FRAMES):
        frame = bytearray(rng.choice(real))
        kind = rng.randrange(4)
        if kind == 0:
            frame = bytearray(rng.randbytes(rng.randrange(1, 200)))
        elif kind == 1:
            body = frame[4 : rng.randrange(5, len(frame))]
            frame = bytearray(struct.pack(">i", len(body))) + body
        else:
            for _ in range(rng.randrange(1, 8)):
                frame[rng.randrange(4, len(frame))] ^= 1 << rng.randrange(8)
            if kind == 3:
                struct.pack_into(">h", frame, 4, rng.randrange(-2, 93))
        with Wire(node.bootstrap_servers) as hostile, contextlib.suppress(OSError):
            hostile.socket.sendall(frame)
            hostile.socket.shutdown(socket.SHUT_WR)
            hostile.socket.settimeout(30)
            while hostile.socket.recv(65536):
                pass
    assert wire.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


# Limits


def test_socket_request_max_bytes(start_node: StartNode) -> None:
    node = start_node(socket_request_max_bytes="10000")
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t")
        assert wire.produce("t", batch_of(b"x" * 9000)).error_code == 0
        wire.send(produce_request("t", batch_of(b"x" * 11_000)), 9)
        assert wire.is_closed()
    assert is_alive(node)


def test_frames_that_are_only_announced_cost_no_memory(start_node: StartNode) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        before_bytes = resident_bytes(node)
        hostile = [Wire(node.bootstrap_servers) for _ in range(100)]
        for each in hostile:
            each.socket.sendall(struct.pack(">ihhih", 100 << 20, 0, 9, 1, 1))
        wire.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        assert resident_bytes(node) - before_bytes < 100 << 20
        for each in hostile:
            each.socket.close()
        wire.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)


def resident_bytes(node: Cluster) -> int:
    pages = Path(f"/proc/{node.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_an_idle_connection_is_closed(start_node: StartNode) -> None:
    node = start_node(connections_max_idle_ms="300")
    with Wire(node.bootstrap_servers) as idle:
        assert idle.is_closed()


def test_idle_connections_are_closed_and_busy_ones_are_not(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        idle, busy, polling = (node.client(name) for name in ("idle", "busy", "polling"))
        topic_id = await node.create_topic(polling, "t")
        await node.ask(idle, MetadataRequest(topics=[]), MetadataResponse)
        fetch = fetch_request(topic_id, {0: 0}, max_wait_ms=1200)
        waiting = asyncio.ensure_future(node.ask(polling, fetch, FetchResponse))
        for _ in range(10):
            await node.ask(busy, MetadataRequest(topics=[]), MetadataResponse)
            await asyncio.sleep(0.1)
        assert not waiting.done()
        assert (node.broker.server.stats.accepted, node.broker.server.stats.idle_closed) == (3, 1)
        assert (await waiting).error_code == 0

    on_virtual_node(tmp_path, story, connections_max_idle_ms="300")


def test_max_connections_per_ip(start_node: StartNode) -> None:
    node = start_node(max_connections_per_ip="2")
    with Wire(node.bootstrap_servers) as first, Wire(node.bootstrap_servers) as second:
        for wire in (first, second):
            wire.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        with Wire(node.bootstrap_servers) as third:
            assert third.is_closed()

    def is_served() -> bool:
        with Wire(node.bootstrap_servers) as fourth, contextlib.suppress(ConnectionError):
            return fourth.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
        return False

    wait_until(is_served)  # the first two connections are closed, so others are accepted


def test_max_connections_per_ip_overrides(start_node: StartNode) -> None:
    node = start_node(max_connections_per_ip="0", max_connections_per_ip_overrides="127.0.0.1:1")
    with Wire(node.bootstrap_servers) as first:
        first.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        with Wire(node.bootstrap_servers) as second:
            assert second.is_closed()


def test_max_connections_makes_newcomers_wait(start_node: StartNode) -> None:
    node = start_node(max_connections="1")
    with Wire(node.bootstrap_servers) as first:
        first.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        waiting = Wire(node.bootstrap_servers, timeout_s=0.3)
        waiting.send(ApiVersionsRequest(), 0)
        with pytest.raises(TimeoutError):
            waiting.receive(ApiVersionsResponse)
    waiting.socket.settimeout(60)
    assert waiting.receive(ApiVersionsResponse).error_code == 0
    waiting.socket.close()


def test_queued_max_request_bytes(start_node: StartNode) -> None:
    node = start_node(queued_max_request_bytes="300000", socket_request_max_bytes="300000")
    value = os.urandom(200_000)
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t")
        frame, *_ = wire.frame(produce_request("t", batch_of(value)), 9)
        holding = [Wire(node.bootstrap_servers) for _ in range(2)]
        for each in holding:
            # The node reads both in one turn: when it answers the first, it holds memory for the second
            known, *_ = each.frame(ApiVersionsRequest(), 0)
            each.socket.sendall(known + frame[:10_000])
            each.receive_frame()
        waiting = Wire(node.bootstrap_servers)
        waiting.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        waiting.send(produce_request("t", batch_of(b"small")), 9)
        assert waiting.receive(ProduceResponse).responses[0].partition_responses[0].error_code == 0
        waiting.send(produce_request("t", batch_of(value)), 9)
        waiting.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            waiting.receive(ProduceResponse)
        for each in holding:
            each.socket.close()
        waiting.socket.settimeout(60)
        assert waiting.receive(ProduceResponse).responses[0].partition_responses[0].error_code == 0
        waiting.socket.close()
