"""A request with very many batches is appended in many turns of the loop, from its original frame."""

import asyncio
import socket
from pathlib import Path

import pytest

from broker_wire import Wire, batch_of
from in_process import create, run, running_node
from penstock.broker.api import produce
from penstock.broker.network import turns
from penstock.broker.node import Broker
from penstock.protocol.messages import MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse

PARTITIONS = 12
REQUESTS = 60
TOPIC = "many"


@pytest.fixture(autouse=True)
def every_batch_takes_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "BYTES_PER_STEP", 0)
    monkeypatch.setattr(turns, "PIECE_NS", 0)


def request_of(prefix: bytes, acks: int = 1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=TOPIC,
                partition_data=[
                    ProduceRequest.PartitionProduceData(
                        index=index, records=memoryview(batch_of(b"%s of %d" % (prefix, index)))
                    )
                    for index in range(PARTITIONS)
                ],
            )
        ],
    )


def address_of(broker: Broker) -> str:
    host, port = broker.server._acceptors[0].listening.getsockname()[:2]
    return f"{host}:{port}"


def send_all(bootstrap_servers: str, name: bytes) -> list[list[int]]:
    """Pipeline all requests, each followed by one of another kind; return the offsets in the answers."""
    with Wire(bootstrap_servers) as wire:
        for number in range(REQUESTS):
            wire.send(request_of(b"%s %d" % (name, number)), 12)
            wire.send(MetadataRequest(topics=[]))
        offsets = []
        for _ in range(REQUESTS):
            answered = wire.receive(ProduceResponse).responses[0].partition_responses
            assert [answer.error_code for answer in answered] == [0] * PARTITIONS
            offsets.append([answer.base_offset for answer in answered])
            wire.receive(MetadataResponse)
        return offsets


def test_batches_of_pipelined_requests_stay_whole_and_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, TOPIC, partitions=PARTITIONS)
            names = (b"one", b"two", b"three")
            answered = await asyncio.gather(
                *(asyncio.to_thread(send_all, address_of(broker), name) for name in names)
            )
            with await asyncio.to_thread(Wire, address_of(broker)) as wire:
                for index in range(PARTITIONS):
                    values = await asyncio.to_thread(wire.values, TOPIC, 0, index)
                    assert len(values) == len(names) * REQUESTS
                    for name, offsets in zip(names, answered, strict=True):
                        for number, of_request in enumerate(offsets):
                            assert values[of_request[index]] == b"%s %d of %d" % (name, number, index)
                        mine = [of_request[index] for of_request in offsets]
                        assert mine == sorted(mine)

    run(story())


def test_who_leaves_in_the_middle_leaves_the_frame_behind(tmp_path: Path) -> None:
    def leave(bootstrap_servers: str, number: int) -> None:
        with Wire(bootstrap_servers) as wire:
            wire.send(request_of(b"left %d" % number), 12)
            wire.socket.shutdown(socket.SHUT_RDWR)

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, TOPIC, partitions=PARTITIONS)
            sending = asyncio.to_thread(send_all, address_of(broker), b"stayed")
            leaving = (asyncio.to_thread(leave, address_of(broker), number) for number in range(30))
            await asyncio.gather(sending, *leaving)
            with await asyncio.to_thread(Wire, address_of(broker)) as wire:
                for index in range(PARTITIONS):
                    values = await asyncio.to_thread(wire.values, TOPIC, 0, index)
                    whole = [b"%s %d of %d" % (b"stayed", number, index) for number in range(REQUESTS)]
                    assert [value for value in values if value and value.startswith(b"stayed")] == whole
                    left = {b"left %d of %d" % (number, index) for number in range(30)}
                    assert set(values) - set(whole) <= left

    run(story())


def test_without_acknowledgement_a_failure_closes_the_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, TOPIC, partitions=PARTITIONS - 1)
            with await asyncio.to_thread(Wire, address_of(broker)) as wire:
                wire.send(request_of(b"none", acks=0), 12, answered=False)
                assert await asyncio.to_thread(wire.is_closed)
                assert broker.replicas.leader(TOPIC, 0).log.log_end_offset == 1

    run(story())
