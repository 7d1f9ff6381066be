"""Requests to another node: a real one, and servers that misbehave."""

import asyncio
import random
import socket
from collections.abc import Coroutine, Iterator
from pathlib import Path

import pytest

from in_process import create, running_node
from peer_servers import channel_to, server
from penstock.broker.peers import (
    ControllerAddress,
    Peer,
    PeerSettings,
    PeerTimedOut,
    PeerUnreachable,
    PeerViolation,
)
from penstock.broker.peers.tcp import TcpDial
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    ResponseHeader,
)
from penstock.protocol.records import Record, decode_batches, encode_batch
from waiting import until

RNG = random.Random(5)


def peer_at(port: int, **settings: int) -> Peer:
    return Peer(
        TcpDial(),
        "127.0.0.1",
        port,
        node_id=7,
        client_id="test",
        rng=RNG,
        settings=PeerSettings(**settings),
    )


async def never(_key: int, _correlation_id: int, _frame: bytes) -> bytes | None:
    return None


def heartbeat_answer(correlation_id: int, error_code: int = 0, *, is_caught_up: bool = False) -> bytes:
    response = BrokerHeartbeatResponse(error_code=error_code, is_caught_up=is_caught_up)
    return ResponseHeader(correlation_id=correlation_id).encode(1) + response.encode(0)


def run(scenario: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def test_requests_to_a_real_node_are_pipelined(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, "t")
            peer = peer_at(broker.advertised("PLAINTEXT")[1])
            calls = [peer.call(MetadataRequest(topics=None), MetadataResponse, 60_000) for _ in range(20)]
            answers = await asyncio.gather(*calls)
            assert {topic.name for answer in answers for topic in answer.topics} == {"t"}
            peer.close()

    run(scenario())


def test_records_of_a_fetch_stay_a_slice_of_what_was_received(tmp_path: Path) -> None:
    value = RNG.randbytes(300_000)

    async def scenario() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, "t")
            topic_id = broker.image.topics.by_name["t"].topic_id
            peer = peer_at(broker.advertised("PLAINTEXT")[1])
            records = encode_batch([Record(0, 1, None, value)])
            partition = ProduceRequest.PartitionProduceData(index=0, records=records)
            topic = ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=[partition])
            produce = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
            produced = await peer.call(produce, ProduceResponse, 60_000)
            assert produced.responses[0].partition_responses[0].error_code == 0
            wanted = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
            fetch = FetchRequest(
                max_wait_ms=100,
                min_bytes=1,
                topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=[wanted])],
            )
            fetched = await peer.call(fetch, FetchResponse, 60_000)
            slice_ = fetched.responses[0].partitions[0].records
            assert isinstance(slice_, memoryview)
            memory = slice_.obj
            assert [record.value for record in decode_batches(slice_)] == [value]
            fetch.topics[0].partitions[0].partition_max_bytes = 1 << 19
            meanwhile = await peer.call(fetch, FetchResponse, 60_000)
            assert bytes(slice_) == bytes(meanwhile.responses[0].partitions[0].records or b"")
            assert meanwhile.responses[0].partitions[0].records.obj is not memory, "it is still referred to"
            memory = meanwhile.responses[0].partitions[0].records.obj
            del meanwhile
            again = await peer.call(fetch, FetchResponse, 60_000)
            assert again.responses[0].partitions[0].records.obj is memory, "nobody does any more"
            assert bytes(again.responses[0].partitions[0].records) == bytes(slice_)
            peer.close()

    run(scenario())


def test_nobody_there(unused_port: int) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        peer = peer_at(unused_port, reconnect_backoff_ms=100, reconnect_backoff_max_ms=200)
        began = loop.time()
        for _ in range(4):
            with pytest.raises(PeerUnreachable, match=f"node 7 at 127.0.0.1:{unused_port}"):
                await peer.call(MetadataRequest(), MetadataResponse, 60_000)
        # the pauses after the first three failures, at their shortest
        assert loop.time() - began >= 0.8 * (0.1 + 0.2 + 0.2)

    run(scenario())


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port that refuses connections and that no other process can take during the test."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield int(sock.getsockname()[1])


def test_a_silent_node_fails_all_that_wait_on_the_connection() -> None:
    async def scenario() -> None:
        async with server(never) as port:
            peer = peer_at(port)
            patient = asyncio.create_task(peer.call(MetadataRequest(), MetadataResponse, 60_000))
            await until(lambda: peer.versions is not None)
            with pytest.raises(PeerTimedOut, match="did not answer METADATA in time"):
                await peer.call(MetadataRequest(), MetadataResponse, 200)
            with pytest.raises(PeerUnreachable, match="METADATA was not answered in time"):
                await patient

    run(scenario())


def test_a_caller_that_gives_up_harms_no_other() -> None:
    asked: list[int] = []
    answered: list[int] = []
    first_gave_up = asyncio.Event()

    async def slowly(_key: int, correlation_id: int, _frame: bytes) -> bytes:
        asked.append(correlation_id)
        await until(first_gave_up.is_set)
        answered.append(correlation_id)
        return heartbeat_answer(correlation_id, is_caught_up=True)

    async def scenario() -> None:
        async with server(slowly) as port:
            peer = peer_at(port)
            first, second = (
                asyncio.create_task(peer.call(BrokerHeartbeatRequest(), BrokerHeartbeatResponse, 60_000))
                for _ in range(2)
            )
            await until(lambda: asked)
            first.cancel()
            first_gave_up.set()
            assert (await second).is_caught_up
            assert len(answered) == 2

    run(scenario())


def test_answers_that_belong_to_nothing_end_the_connection() -> None:
    async def confused(_key: int, correlation_id: int, _frame: bytes) -> bytes:
        return heartbeat_answer(correlation_id + 5)

    async def torn(_key: int, correlation_id: int, _frame: bytes) -> bytes:
        return heartbeat_answer(correlation_id)[:-3]

    async def scenario() -> None:
        async with server(confused) as port:
            with pytest.raises(PeerUnreachable, match="correlation id"):
                await peer_at(port).call(BrokerHeartbeatRequest(), BrokerHeartbeatResponse, 60_000)
        async with server(torn) as port:
            with pytest.raises(PeerViolation, match="BROKER_HEARTBEAT version 0"):
                await peer_at(port).call(BrokerHeartbeatRequest(), BrokerHeartbeatResponse, 60_000)

    run(scenario())


def test_an_api_that_is_not_served_there() -> None:
    async def scenario() -> None:
        async with server(never) as port:
            peer = peer_at(port)
            with pytest.raises(PeerViolation, match="does not serve FETCH"):
                await peer.call(FetchRequest(), FetchResponse, 60_000)
            with pytest.raises(PeerTimedOut):  # the connection still works
                await peer.call(MetadataRequest(), MetadataResponse, 100)

    run(scenario())


def test_the_connection_is_made_again_after_the_other_side_closed_it() -> None:
    connections: list[int] = []

    async def once(_key: int, correlation_id: int, _frame: bytes) -> bytes:
        connections.append(correlation_id)
        if len(connections) == 1:
            raise ConnectionError
        return heartbeat_answer(correlation_id)

    async def scenario() -> None:
        async with server(once) as port:
            peer = peer_at(port)
            with pytest.raises(PeerUnreachable, match="closed by the other side"):
                await peer.call(BrokerHeartbeatRequest(), BrokerHeartbeatResponse, 60_000)
            await peer.call(BrokerHeartbeatRequest(), BrokerHeartbeatResponse, 60_000)
            peer.close()
            with pytest.raises(PeerUnreachable, match="closed by this node"):
                await peer.call(ApiVersionsRequest(), ApiVersionsResponse, 60_000)

    run(scenario())


# The channel to the active controller


def test_the_channel_follows_the_controller() -> None:
    """There is no controller at first, then a former one, a silent one and one that answers.

    An attempt would last longer than the test, so the channel leaves the silent one because it is replaced.
    """
    asked: list[str] = []
    leaders: list[ControllerAddress | None] = [None]

    def leader() -> ControllerAddress | None:
        if leaders[-1] is None:
            asked.append("nobody")
        return leaders[-1]

    async def former(_key: int, correlation_id: int, _frame: bytes) -> bytes:
        asked.append("former")
        return heartbeat_answer(correlation_id, error_code=ErrorCode.NOT_CONTROLLER)

    async def silent(_key: int, _correlation_id: int, _frame: bytes) -> None:
        asked.append("silent")

    async def present(_key: int, correlation_id: int, _frame: bytes) -> bytes:
        asked.append("present")
        return heartbeat_answer(correlation_id, is_caught_up=True)

    async def scenario() -> None:
        async with server(former) as one, server(silent) as two, server(present) as three:
            channel = channel_to(leader, attempt_timeout_ms=600_000)
            call = asyncio.create_task(
                channel.call(BrokerHeartbeatRequest(), BrokerHeartbeatResponse, 600_000)
            )
            for node_id, (port, before) in enumerate(
                ((one, "nobody"), (two, "former"), (three, "silent")), 2
            ):
                await until(lambda before=before: before in asked)
                leaders.append(ControllerAddress(node_id, "127.0.0.1", port))
                channel.leader_changed()
            assert (await call).is_caught_up
            assert list(dict.fromkeys(asked)) == ["nobody", "former", "silent", "present"]
            assert asked.count("silent") == asked.count("present") == 1
            channel.close()

    run(scenario())


def test_the_channel_asks_this_node_where_it_is_the_controller() -> None:
    refusals = [ErrorCode.NOT_CONTROLLER]

    async def here(_request: Message) -> Message:
        if refusals:
            raise KafkaError(refusals.pop())
        return BrokerHeartbeatResponse(is_caught_up=True)

    async def scenario() -> None:
        channel = channel_to(lambda: ControllerAddress(1, "", 0), here)
        assert channel.is_here
        response = await channel.call(BrokerHeartbeatRequest(), BrokerHeartbeatResponse, 60_000)
        assert response.is_caught_up

    run(scenario())


def test_the_channel_says_what_went_wrong_last(unused_port: int) -> None:
    async def scenario() -> None:
        channel = channel_to(lambda: ControllerAddress(2, "127.0.0.1", unused_port))
        with pytest.raises(PeerTimedOut, match=f"node 2 at 127.0.0.1:{unused_port}"):
            await channel.call(BrokerHeartbeatRequest(), BrokerHeartbeatResponse, 300)
        nobody = channel_to(lambda: None)
        with pytest.raises(PeerTimedOut, match="no active controller is known"):
            await nobody.call(BrokerHeartbeatRequest(), BrokerHeartbeatResponse, 300)

    run(scenario())
