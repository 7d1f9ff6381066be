"""Brokers register, send heartbeats, time out and stop; features and producer ids."""

import pytest
from controller_bench import SESSION_MS, ControllerBench, directory_of, replayed

from penstock.metadata.controller.features import (
    SUPPORTED_FEATURES,
    advertised_features,
    bootstrap_records,
    record_version,
)
from penstock.metadata.controller.heartbeats import BrokerHeartbeats
from penstock.metadata.controller.placement import place
from penstock.metadata.controller.producer_ids import allocate_producer_ids
from penstock.metadata.controller.registration import (
    fence_one_stale_broker,
    process_heartbeat,
    register_controller,
    unregister_broker,
)
from penstock.metadata.controller.state import Refusal
from penstock.metadata.image import NO_LEADER, MetadataDelta, MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AllocateProducerIdsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRequest,
)


def three(**options: bool) -> ControllerBench:
    return ControllerBench(brokers=(1, 2, 3), **options)  # type: ignore[arg-type]


def test_a_broker_registers_fenced_and_serves_once_it_has_read_its_registration() -> None:
    bench = ControllerBench(brokers=())
    bench.register(1)
    broker = bench.image.brokers[1]
    assert broker.fenced
    assert broker.epoch == 1, "the offset of its registration, after that of the feature"
    behind = bench.heartbeat(1, current_metadata_offset=0)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    assert bench.heartbeat(1, want_fence=True).is_fenced
    there = bench.heartbeat(1)
    assert (there.is_caught_up, there.is_fenced) == (True, False)
    assert bench.image.brokers[1].active
    assert replayed(bench.records).brokers == bench.image.brokers


def test_a_silent_broker_is_fenced_and_its_partitions_move() -> None:
    bench = three()
    bench.place("t", [1, 2, 3], [2, 3, 1])
    bench.kill(1)
    assert bench.image.brokers[1].fenced
    assert [(p.leader, p.isr, p.leader_epoch) for p in (bench.partition(), bench.partition("t", 1))] == [
        (2, (2, 3), 1),
        (2, (2, 3), 0),
    ]
    bench.heartbeat(1)
    assert not bench.image.brokers[1].fenced
    assert bench.partition().leader == 2, "it may come into sync again, and then lead"


def test_brokers_are_fenced_one_by_one() -> None:
    bench = three()
    bench.place("t", [1, 2, 3])
    bench.now_ms += SESSION_MS + 1
    bench.heartbeat(3)
    assert bench.do(fence_one_stale_broker, bench.now_ms)
    assert bench.partition().leader == 2
    assert bench.do(fence_one_stale_broker, bench.now_ms)
    assert bench.partition().leader == 3
    assert not bench.do(fence_one_stale_broker, bench.now_ms)


def test_the_last_in_sync_stays_so_while_it_is_gone() -> None:
    bench = three()
    bench.place("t", [1, 2, 3])
    for broker in (3, 2, 1):
        bench.kill(broker)
    assert (bench.partition().leader, bench.partition().isr) == (NO_LEADER, (1,))
    bench.heartbeat(2)
    assert bench.partition().leader == NO_LEADER
    bench.heartbeat(1)
    assert (bench.partition().leader, bench.partition().isr) == (1, (1,))


def test_a_controlled_shutdown_moves_leaders_first_and_ends_when_all_have_heard() -> None:
    bench = three()
    bench.place("t", [1, 2, 3])
    first = bench.heartbeat(1, want_shut_down=True)
    assert not first.should_shut_down
    assert not first.is_fenced
    assert bench.image.brokers[1].in_controlled_shutdown
    assert (bench.partition().leader, bench.partition().isr) == (2, (2, 3))
    bench.heartbeat(2)
    assert not bench.heartbeat(1, want_shut_down=True).should_shut_down, "broker 3 does not know yet"
    bench.heartbeat(3)
    last = bench.heartbeat(1, want_shut_down=True)
    assert (last.should_shut_down, last.is_fenced) == (True, True)
    assert bench.image.brokers[1].fenced


def test_no_partition_is_placed_on_a_broker_that_is_about_to_stop() -> None:
    bench = three()
    bench.place("t", [1, 2, 3])
    bench.heartbeat(1, want_shut_down=True)
    assert all(1 not in replicas for replicas in place(bench.state, 20, 2))


def test_a_broker_that_leads_nothing_stops_at_once() -> None:
    bench = three()
    bench.place("t", [2, 1])
    assert bench.heartbeat(1, want_shut_down=True).should_shut_down
    assert bench.partition().isr == (2,)


def test_the_only_broker_stops_and_comes_back() -> None:
    """No other broker can lead its partitions."""
    bench = ControllerBench()
    bench.create("t", partitions=2)
    assert bench.stop(1) == 2
    partitions = bench.image.topics.by_name["t"].partitions
    assert [(p.leader, p.isr, p.leader_epoch) for p in partitions.values()] == [(NO_LEADER, (1,), 1)] * 2
    bench.start(1, previous_epoch=bench.image.brokers[1].epoch)
    assert [(p.leader, p.leader_epoch) for p in partitions.values()] == [(1, 2)] * 2


def test_the_only_broker_may_die_and_come_back() -> None:
    for elr, recovery_state in ((False, 0), (True, 1)):
        bench = ControllerBench(elr=elr)
        bench.create("t")
        bench.now_ms += SESSION_MS + 1
        bench.start(1)
        assert (bench.partition().leader, bench.partition().isr) == (1, (1,))
        assert bench.partition().leader_recovery_state == recovery_state


# Incarnations


def test_a_second_broker_of_the_same_id_is_refused_while_the_first_lives() -> None:
    bench = three()
    with pytest.raises(Refusal, match="Another broker is registered with that broker id") as refused:
        bench.register(1)
    assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    bench.now_ms += SESSION_MS + 1
    assert bench.register(1) > 0


def test_who_was_let_go_comes_back_without_waiting() -> None:
    bench = three()
    bench.stop(1)
    bench.start(1, previous_epoch=bench.image.brokers[1].epoch)
    assert bench.image.brokers[1].active


def test_the_same_incarnation_amends_its_registration() -> None:
    bench = ControllerBench(brokers=())
    epoch = bench.register(1, incarnation=7)
    bench.heartbeat(1)
    assert bench.register(1, incarnation=7, rack="b") == epoch
    broker = bench.image.brokers[1]
    assert (broker.rack, broker.fenced, broker.epoch) == ("b", False, epoch)


def test_an_unclean_stop_costs_a_broker_its_eligibility() -> None:
    """KIP-966: it may have lost unflushed data. A broker that stopped cleanly reports its former epoch."""
    for cleanly, isr, elr in ((True, (2,), (1,)), (False, (2,), ())):
        bench = ControllerBench(brokers=(1, 2), elr=True)
        bench.place("t", [1, 2], min_insync_replicas="2")
        bench.stop(1)
        assert (bench.partition().isr, bench.partition().elr) == ((2,), (1,))
        bench.register(1, previous_epoch=bench.image.brokers[1].epoch if cleanly else 1)
        assert (bench.partition().isr, bench.partition().elr) == (isr, elr)


def test_a_stale_epoch_is_refused() -> None:
    bench = three()
    heartbeat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=0)
    with pytest.raises(Refusal, match="Expected broker epoch 1, but got broker epoch 0") as refused:
        bench.do(process_heartbeat, heartbeat, bench.now_ms)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH
    heartbeat.broker_id = 9
    with pytest.raises(Refusal, match="No broker registration found for broker id 9"):
        bench.do(process_heartbeat, heartbeat, bench.now_ms)


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"cluster_id": "other"}, "INCONSISTENT_CLUSTER_ID", "Expected cluster ID a-cluster, but got"),
        ({"log_dirs": []}, "INVALID_REGISTRATION", "No directories specified in request"),
        ({"log_dirs": [bytes(15) + b"\x05"]}, "INVALID_REGISTRATION", "Reserved directory ID in request"),
        ({"log_dirs": [directory_of(9)] * 2}, "INVALID_REGISTRATION", "Duplicate directory ID in request"),
        ({"log_dirs": [directory_of(1)]}, "INVALID_REGISTRATION", "Broker 1 is already registered with dir"),
        ({"features": []}, "INVALID_REGISTRATION", "Request features do not contain 'metadata.version'"),
        ({"is_migrating_zk_broker": True}, "BROKER_ID_NOT_REGISTERED", "Controller does not support"),
    ],
)
def test_registrations_that_are_refused(fields: dict[str, object], code: str, message: str) -> None:
    bench = ControllerBench()
    with pytest.raises(Refusal, match=message) as refused:
        bench.register(9, **fields)  # type: ignore[arg-type]
    assert refused.value.code == ErrorCode[code]


def test_a_broker_that_does_not_support_what_is_finalized_is_refused() -> None:
    bench = ControllerBench()
    bench.write(FeatureLevelRecord(name="group.version", feature_level=1))
    bench.register(8)  # this controller checks only the features of Apache Kafka that it has itself
    bench.write(FeatureLevelRecord(name="transaction.version", feature_level=2))
    metadata_version = BrokerRegistrationRequest.Feature(
        name="metadata.version", min_supported_version=7, max_supported_version=30
    )
    with pytest.raises(
        Refusal, match=r"does not support finalized version 2 of transaction.version.*between 0 and 0"
    ):
        bench.register(9, features=[metadata_version])
    old = ControllerBench(metadata_version=7, brokers=())
    old.register(1)
    assert old.image.brokers[1].log_dirs == (), "they are not in a log of that version"


def test_a_broker_is_unregistered() -> None:
    bench = three(elr=True)
    bench.place("t", [1, 2, 3], min_insync_replicas="2")
    for broker in (1, 2):
        bench.kill(broker)
    assert (bench.partition().isr, bench.partition().elr) == ((3,), (2,))
    bench.do(unregister_broker, UnregisterBrokerRequest(broker_id=2))
    assert sorted(bench.image.brokers) == [1, 3]
    assert bench.partition().replicas == (1, 2, 3)
    assert not bench.do(fence_one_stale_broker, bench.now_ms + SESSION_MS) or 2 not in bench.image.brokers
    with pytest.raises(Refusal, match="Broker ID 2 is not currently registered"):
        bench.do(unregister_broker, UnregisterBrokerRequest(broker_id=2))


def test_a_controller_registers() -> None:
    bench = ControllerBench()
    listener = ControllerRegistrationRequest.Listener(
        name="CONTROLLER", host="h", port=9093, security_protocol=0
    )
    request = ControllerRegistrationRequest(controller_id=4, incarnation_id=bytes(16), listeners=[listener])
    bench.do(register_controller, request)
    assert bench.image.cluster.controllers[4].end_points[0].port == 9093
    listener.security_protocol = 9
    with pytest.raises(Refusal, match="Unknown security protocol 9 in listener CONTROLLER"):
        bench.do(register_controller, request)


# Log directories (KIP-858, KIP-1066)


def test_a_failed_directory_takes_its_replicas_along() -> None:
    bench = ControllerBench(brokers=(1, 2))
    bench.place("t", [1, 2])
    bench.place("u", [2, 1])
    bench.heartbeat(1, offline_log_dirs=[directory_of(1)])
    for topic in ("t", "u"):
        assert (bench.partition(topic).leader, bench.partition(topic).isr) == (2, (2,))
    written = len(bench.records)
    bench.heartbeat(1, offline_log_dirs=[bytes(16)])
    assert len(bench.records) == written, "that is none of its directories"


def test_the_other_directories_of_a_broker_go_on() -> None:
    bench = ControllerBench(brokers=(2,))
    bench.register(1, log_dirs=[directory_of(1, 0), directory_of(1, 1)])
    bench.heartbeat(1)
    bench.heartbeat(1, offline_log_dirs=[directory_of(1, 1)])
    assert bench.image.brokers[1].log_dirs == (directory_of(1, 0),)


def test_cordoned_brokers_get_no_new_replicas() -> None:
    bench = three()
    bench.heartbeat(2, cordoned_log_dirs=[directory_of(2)])
    assert all(2 not in replicas for replicas in place(bench.state, 20, 2))
    written = len(bench.records)
    bench.heartbeat(2, cordoned_log_dirs=[directory_of(2)])
    assert len(bench.records) == written, "nothing new"
    bench.heartbeat(2, cordoned_log_dirs=[])
    assert any(2 in replicas for replicas in place(bench.state, 20, 2))


# A new active controller


def test_a_controller_that_takes_over_gives_everybody_a_session() -> None:
    bench = three()
    bench.kill(3)
    anew = BrokerHeartbeats(SESSION_MS)
    anew.take_over(bench.image.brokers.values(), bench.image.offset, bench.now_ms)
    bench.state.heartbeats = anew
    bench.now_ms += SESSION_MS
    assert not bench.do(fence_one_stale_broker, bench.now_ms)
    assert anew.since_last_contact_ms(1, bench.now_ms) == SESSION_MS
    assert anew.since_last_contact_ms(3, bench.now_ms) is None
    bench.now_ms += 1
    assert bench.do(fence_one_stale_broker, bench.now_ms)
    assert bench.image.brokers[1].fenced
    behind = bench.heartbeat(2, current_metadata_offset=0)
    assert not behind.is_caught_up, "its registration is somewhere below where this controller began"


def test_nobody_is_blamed_for_the_time_that_the_controller_itself_was_stopped() -> None:
    bench = three()
    bench.now_ms += 10 * SESSION_MS
    bench.state.heartbeats.forgive(10 * SESSION_MS - 1000)
    assert not bench.do(fence_one_stale_broker, bench.now_ms)
    bench.now_ms += SESSION_MS
    assert bench.do(fence_one_stale_broker, bench.now_ms)


# Producer ids and features


def test_producer_ids_come_in_blocks_that_never_come_again() -> None:
    bench = ControllerBench()
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)
    blocks = [bench.do(allocate_producer_ids, request) for _ in range(2)]
    assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [(0, 1000), (1000, 1000)]
    assert bench.image.next_producer_id == 2000
    request.broker_epoch = 0
    with pytest.raises(Refusal, match="Expected broker epoch 1"):
        bench.do(allocate_producer_ids, request)


def test_a_new_cluster_finalizes_only_what_is_served() -> None:
    image = MetadataImage()
    for record in bootstrap_records():
        image.replay(record, MetadataDelta())
    finalized = {
        "metadata.version": 30,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    }
    assert image.features == finalized
    assert image.metadata_version == 30
    image.replay(FeatureLevelRecord(name="group.version", feature_level=1), MetadataDelta())
    assert advertised_features(image.features) == finalized
    supported = {feature.name for feature in SUPPORTED_FEATURES}
    assert supported == {"kraft.version", *finalized}


def test_records_are_written_so_that_the_finalized_version_can_read_them() -> None:
    for metadata_version, broker, partition in ((7, 1, 0), (16, 2, 0), (17, 3, 1), (23, 3, 2), (30, 4, 2)):
        assert record_version(RegisterBrokerRecord(), metadata_version) == broker
        assert record_version(PartitionRecord(), metadata_version) == partition
        assert record_version(FeatureLevelRecord(), metadata_version) == 0
