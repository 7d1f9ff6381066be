"""The metrics that operators alert on, with the names of Apache Kafka."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from prometheus_client.metrics_core import Metric

from in_process import create, run, running_node
from penstock.broker.metrics.cluster_metrics import Elections
from penstock.broker.metrics.server import BrokerCollector
from penstock.broker.node import Broker
from penstock.broker.partitions.purgatory import TICK_S
from penstock.metadata.image import MetadataDelta, MetadataImage, PartitionRegistration
from penstock.metadata.image.topics import NO_LEADER, TopicImage
from penstock.protocol.messages import FetchRequest, FetchResponse
from virtual_time import VirtualNode, on_virtual_node

TOPIC_ID = b"t" * 16


def values(broker: Broker) -> dict[str, float]:
    """All samples by name, with the labels appended."""
    families: list[Metric] = list(BrokerCollector(broker).collect())
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_single_node_is_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, "orders", partitions=3)
            found = values(broker)
            assert found["penstock_active_controller"] == 1
            assert found["penstock_partitions_led"] == 3
            assert found["penstock_brokers active"] == 1
            assert found["penstock_brokers fenced"] == 0
            for name in ("under_replicated", "under_min_isr", "offline", "reassigning"):
                assert found[f"penstock_{name}_partitions"] == 0, name
            assert found["penstock_at_min_isr_partitions"] == 3
            assert found["penstock_cluster_partitions"] == 3
            assert found["penstock_leader_elections_total"] == 0
            assert found["penstock_quorum_leader"] == broker.node_id
            assert found["penstock_metadata_applied_offset"] == found["penstock_metadata_log_end_offset"] - 1

    run(story())


def test_every_text_is_a_sentence(tmp_path: Path) -> None:
    """The docs sort metrics by their names, so no text may continue another."""

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            texts = [family.documentation for family in BrokerCollector(broker).collect()]
            assert not [text for text in texts if not re.fullmatch(r"[A-Z1-9][^.].*\.", text)]
            assert not [text for text in texts if re.search(r"\b(Of those|of them|the same)\b", text)]

    run(story())


def test_time_of_requests_is_split(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, "orders")
            address = f"127.0.0.1:{broker.advertised('PLAINTEXT')[1]}"
            await broker.run_in_worker(produce, address)
            found = values(broker)

            def seconds(api: str, phase: str) -> float:
                return found[f"penstock_request_phase_seconds_total {api} {phase}"]

            for phase in ("queue", "local", "send"):
                assert seconds("produce", phase) > 0, phase

    run(story())


def test_a_long_poll_is_no_work(tmp_path: Path) -> None:
    """Work takes no virtual time, so whatever is counted here is time that the request only waited."""

    async def story(node: VirtualNode) -> None:
        client = node.client("reader")
        topic_id = await node.create_topic(client, "orders")
        partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
        topic = FetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])
        fetch = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])
        fetched = await node.ask(client, fetch, FetchResponse)
        assert not fetched.responses[0].partitions[0].records
        found = values(node.broker)
        spent_s = {
            phase: found[f"penstock_request_phase_seconds_total fetch {phase}"]
            for phase in ("queue", "local", "remote", "send")
        }
        assert spent_s == {"queue": 0, "local": 0, "remote": pytest.approx(0.5, abs=2 * TICK_S), "send": 0}

    on_virtual_node(tmp_path, story)


def produce(address: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    producer.produce("orders", b"1")
    assert producer.flush(60) == 0


class Log:
    """The metadata log as `Elections` uses it: an image, and listeners for changes."""

    def __init__(self, partition: PartitionRegistration) -> None:
        self.image = MetadataImage()
        self.topic = TopicImage("orders", TOPIC_ID, {0: partition})
        self.image.topics.by_name["orders"] = self.image.topics.by_id[TOPIC_ID] = self.topic
        self._tell: Any = None

    def on_image_change(self, listener: Any) -> None:
        self._tell = listener

    def change(self, **fields: Any) -> None:
        self.topic.partitions[0] = replace(self.topic.partitions[0], **fields)
        self._tell(MetadataDelta(changed_partitions={(TOPIC_ID, 0)}))

    def create(self, number: int, partition: PartitionRegistration) -> None:
        self.topic.partitions[number] = partition
        self._tell(MetadataDelta(changed_partitions={(TOPIC_ID, number)}))


def test_elections_are_counted_by_the_active_controller() -> None:
    led_by_1 = PartitionRegistration(
        replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=0, partition_epoch=0
    )
    log, quorum = Log(led_by_1), SimpleNamespace(is_leader=True)
    elections: Any = Elections(log, quorum)  # type: ignore[arg-type]

    def counted() -> tuple[int, int]:
        return elections.clean, elections.unclean

    log.change(isr=(1, 2), partition_epoch=1)
    assert counted() == (0, 0), "only the ISR has changed"
    log.change(leader=2, isr=(2,), leader_epoch=1)
    assert counted() == (1, 0)
    log.change(leader=NO_LEADER, elr=(2,), isr=(), leader_epoch=2)
    assert counted() == (1, 0), "nobody was elected"
    log.change(leader=2, isr=(2,), elr=(), leader_epoch=3)
    assert counted() == (2, 0), "an eligible leader loses nothing"
    log.change(leader=3, isr=(3,), leader_epoch=4)
    assert counted() == (2, 1), "3 was not in sync"
    log.create(1, led_by_1)
    assert counted() == (2, 1), "a new partition elects nobody"
    quorum.is_leader = False
    log.change(leader=1, isr=(1,), leader_epoch=5)
    assert counted() == (2, 1), "another controller counts this one"
