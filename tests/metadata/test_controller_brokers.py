"""Brokers, features and producer ids."""

from dataclasses import replace

from controller_bench import ControllerBench

from penstock.metadata.controller.brokers import shut_down_broker, unfence_broker
from penstock.metadata.controller.features import (
    SUPPORTED_FEATURES,
    advertised_features,
    bootstrap_records,
    record_version,
)
from penstock.metadata.controller.producer_ids import ProducerIdsBlock, allocate_producer_ids
from penstock.metadata.image import NO_LEADER, MetadataDelta, MetadataImage
from penstock.protocol.messages import FeatureLevelRecord, PartitionRecord, RegisterBrokerRecord


def test_a_broker_registers_fenced_and_serves_once_unfenced() -> None:
    bench = ControllerBench()
    bench.register(1)
    assert bench.image.brokers[1].fenced
    assert bench.image.brokers[1].epoch == 10
    bench.do(unfence_broker, 1)
    assert not bench.image.brokers[1].fenced


def test_a_broker_that_stopped_well_is_fenced_and_leads_nothing() -> None:
    """Or a Kafka controller on the same log would wait for its session to time out."""
    bench = ControllerBench()
    bench.create("t", partitions=2)
    bench.do(shut_down_broker, 1)
    assert bench.image.brokers[1].fenced
    partitions = bench.image.topics.by_name["t"].partitions
    assert [(p.leader, p.isr, p.leader_epoch) for p in partitions.values()] == [(NO_LEADER, (1,), 1)] * 2
    bench.do(unfence_broker, 1)
    assert [(p.leader, p.leader_epoch) for p in partitions.values()] == [(1, 2)] * 2


def test_a_start_begins_a_leader_epoch_in_every_partition() -> None:
    bench = ControllerBench()
    bench.create("t", partitions=2)
    bench.do(unfence_broker, 1)
    assert [p.leader_epoch for p in bench.image.topics.by_name["t"].partitions.values()] == [1, 1]


def test_a_partition_without_a_leader_gets_one_back() -> None:
    bench = ControllerBench(brokers=(1, 2))
    bench.create("t", replication_factor=2)
    partitions = bench.image.topics.by_name["t"].partitions
    start = partitions[0]
    for left_behind, leader, isr in (
        (replace(start, leader=NO_LEADER, isr=(1,)), 1, (1,)),
        (replace(start, leader=2, isr=(1, 2)), 2, (1, 2)),
        (replace(start, leader=NO_LEADER, isr=(2,)), NO_LEADER, (2,)),
        (replace(start, leader=NO_LEADER, isr=(), elr=(1,)), 1, (1,)),
        (replace(start, leader=NO_LEADER, isr=(), elr=(2,), last_known_elr=(1,)), NO_LEADER, ()),
        (replace(start, leader=NO_LEADER, isr=(), last_known_elr=(1,)), 1, (1,)),
    ):
        partitions[0] = left_behind
        bench.do(unfence_broker, 1)
        assert (partitions[0].leader, partitions[0].isr) == (leader, isr), left_behind


def test_producer_ids_come_in_blocks_that_never_come_again() -> None:
    bench = ControllerBench()
    assert bench.do(allocate_producer_ids, 1) == ProducerIdsBlock(0, 1000)
    assert bench.do(allocate_producer_ids, 1) == ProducerIdsBlock(1000, 1000)
    assert bench.image.next_producer_id == 2000


def test_a_new_cluster_finalizes_only_what_is_served() -> None:
    image = MetadataImage()
    for record in bootstrap_records():
        image.replay(record, MetadataDelta())
    assert image.features == {"metadata.version": 30, "transaction.version": 2}
    assert image.metadata_version == 30
    image.replay(FeatureLevelRecord(name="group.version", feature_level=1), MetadataDelta())
    assert advertised_features(image.features) == {"metadata.version": 30, "transaction.version": 2}
    supported = {feature.name for feature in SUPPORTED_FEATURES}
    assert supported == {"kraft.version", "metadata.version", "transaction.version"}


def test_records_are_written_so_that_the_finalized_version_can_read_them() -> None:
    for metadata_version, broker, partition in ((7, 1, 0), (16, 2, 0), (17, 3, 1), (23, 3, 2), (30, 4, 2)):
        assert record_version(RegisterBrokerRecord(), metadata_version) == broker
        assert record_version(PartitionRecord(), metadata_version) == partition
        assert record_version(FeatureLevelRecord(), metadata_version) == 0
