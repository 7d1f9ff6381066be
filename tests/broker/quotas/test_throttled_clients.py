"""Quotas as real clients meet them: set by AlterClientQuotas, and reported by librdkafka."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, ThrottleEvent, TopicPartition

from broker_wire import Wire, batch_of
from in_process import run, running_node
from penstock.broker.node import Broker
from penstock.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from penstock.testing import Cluster
from quota_wire import set_quota
from waiting import wait_until

StartNode = Callable[..., Cluster]
RECORD_BYTES = 1000


def test_a_producer_reads_its_throttle_time(start_node: StartNode) -> None:
    node = start_node(quota_window_num="2")
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t")
        set_quota(wire, {"client-id": "producer"}, producer_byte_rate=20_000)
    events: list[ThrottleEvent] = []
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "client.id": "producer",
            "throttle_cb": events.append,
            # All records are in one request, which exceeds the 20,000 bytes of a whole sample.
            "linger.ms": 5000,
            "batch.num.messages": 30,
        }
    )
    for number in range(60):
        producer.produce("t", value=bytes([number]) * RECORD_BYTES)
    assert producer.flush(60) == 0
    wait_until(lambda: producer.poll(0.1) >= 0 and bool(events))
    # 30,000 bytes and their headers in one second: half a sample more.
    assert 0.5 <= events[0].throttle_time < 3
    with Wire(node.bootstrap_servers) as wire:
        assert wire.values("t") == [bytes([number]) * RECORD_BYTES for number in range(60)]


def test_a_consumer_beyond_its_quota_gets_all_records(start_node: StartNode) -> None:
    node = start_node(quota_window_num="2")
    events: list[ThrottleEvent] = []
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "client.id": "consumer",
            "group.id": "none",
            "throttle_cb": events.append,
        }
    )
    offsets = itertools.count()
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t")
        # A fetch may have two batches, and exceeds the rate unless a second has passed since the last one.
        set_quota(wire, {"client-id": "consumer"}, consumer_byte_rate=2.5 * RECORD_BYTES)
        consumer.assign([TopicPartition("t", 0, 0)])

        def is_throttled() -> bool:
            for _ in range(4):
                wire.produce("t", batch_of(b"x" * RECORD_BYTES))
            for _ in range(4):
                message = consumer.poll(60)
                assert isinstance(message, Message)
                assert (message.error(), message.offset()) == (None, next(offsets))
            return bool(events)

        wait_until(is_throttled)
    consumer.close()
    assert events[0].throttle_time > 0


def test_a_broker_mutes_a_client_whose_mutations_the_controller_throttles(tmp_path: Path) -> None:
    def throttle_ms(broker: Broker) -> int:
        host, port = broker.advertised("PLAINTEXT")
        address = f"{host}:{port}"
        with Wire(address) as admin, Wire(address, client_id="creator") as wire:
            set_quota(admin, {"client-id": "creator"}, controller_mutation_rate=0.001)
            topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=5, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            answered_ms = wire.ask(request, CreateTopicsResponse, 5).throttle_time_ms
            (muted,) = (c for c in broker.server.connections.values() if c.is_muted)
            assert muted.client_id == "creator"
            return answered_ms

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            assert await asyncio.to_thread(throttle_ms, broker) > 4_000_000

    run(story())
