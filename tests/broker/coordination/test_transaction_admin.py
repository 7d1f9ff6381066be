"""Describing transactions, and aborting hanging ones (KIP-664)."""

import select
import time
from collections.abc import Callable, Iterator

import pytest

from broker_wire import Wire, batch_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.testing import Cluster
from transaction_wire import GROUP, Transactor, committed_offset, committed_values, find_coordinator

OK = ErrorCode.NONE


@pytest.fixture
def second(node: Cluster) -> Iterator[Wire]:
    """Another connection to the shared node."""
    with Wire(node.bootstrap_servers) as connection:
        yield connection


def producers_of(wire: Wire, topic: str) -> list[DescribeProducersResponse.ProducerState]:
    topics = [DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0])]
    response = wire.ask(DescribeProducersRequest(topics=topics), DescribeProducersResponse)
    partition = response.topics[0].partitions[0]
    assert partition.error_code == OK, partition.error_message
    return partition.active_producers


def listed(wire: Wire, version: int | None = None, **filters: object) -> dict[str, str]:
    response = wire.ask(ListTransactionsRequest(**filters), ListTransactionsResponse, version)
    assert response.error_code == OK
    return {found.transactional_id: found.transaction_state for found in response.transaction_states}


def write_marker(
    wire: Wire,
    topic: str,
    producer: tuple[int, int],
    *,
    commit: bool = False,
    coordinator_epoch: int = 0,
    partition: int = 0,
    transaction_version: int = 0,
) -> ErrorCode:
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
    )
    response = wire.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
    return ErrorCode(response.markers[0].topics[0].partitions[0].error_code)


# -- describe --------------------------------------------------------------------------------------------


def test_describe_a_transaction(wire: Wire, topic: str) -> None:
    p = Transactor(wire, topic, timeout_ms=12_345).begin()
    assert p.write(topic, b"x") is OK
    request = DescribeTransactionsRequest(transactional_ids=[topic, "nobody", ""])
    found, nobody, empty = wire.ask(request, DescribeTransactionsResponse).transaction_states
    assert found.transaction_state == "Ongoing"
    assert (found.producer_id, found.producer_epoch) == (p.producer_id, p.epoch)
    assert found.transaction_timeout_ms == 12_345
    assert abs(found.transaction_start_time_ms - time.time() * 1000) < 60_000
    assert [(entry.topic, entry.partitions) for entry in found.topics] == [(topic, [0])]
    assert nobody.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST


def test_list_transactions(start_node: Callable[..., Cluster]) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        assert listed(wire) == {}
        wire.create_topic("t")
        idle, open_one = Transactor(wire, "idle").begin(), Transactor(wire, "open").begin()
        assert open_one.write("t", b"x") is OK
        assert listed(wire) == {"idle": "Empty", "open": "Ongoing"}
        assert listed(wire, state_filters=["Ongoing"]) == {"open": "Ongoing"}
        assert listed(wire, producer_id_filters=[idle.producer_id]) == {"idle": "Empty"}
        assert listed(wire, transactional_id_pattern="o.*") == {"open": "Ongoing"}
        assert listed(wire, duration_filter=60_000) == {"idle": "Empty"}, "as in Kafka: it never began"
        assert listed(wire, version=0) == {"idle": "Empty", "open": "Ongoing"}
        request = ListTransactionsRequest(state_filters=["Sleeping"])
        response = wire.ask(request, ListTransactionsResponse)
        assert response.unknown_state_filters == ["Sleeping"]
        assert response.transaction_states == []
        request = ListTransactionsRequest(transactional_id_pattern="(")
        response = wire.ask(request, ListTransactionsResponse)
        assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_long_ids_and_patterns_are_matched(wire: Wire) -> None:
    name = "x" * 5_000
    Transactor(wire, name).begin()
    assert listed(wire, transactional_id_pattern="(x{1,30}){1,30}y") == {}
    assert listed(wire, transactional_id_pattern="x{5,1000}x*") == {name: "Empty"}


def test_describe_producers(wire: Wire, topic: str) -> None:
    assert producers_of(wire, topic) == []
    assert wire.produce(topic, batch_of(b"1", b"2", producer=(9_000_000, 3, 0))).error_code == OK
    p = Transactor(wire, topic).begin()
    assert p.write(topic, b"x") is OK
    idempotent, transactional = producers_of(wire, topic)
    assert (idempotent.producer_id, idempotent.producer_epoch, idempotent.last_sequence) == (9_000_000, 3, 1)
    assert idempotent.current_txn_start_offset == -1
    assert transactional.producer_id == p.producer_id
    assert transactional.current_txn_start_offset == 2
    assert p.end() is OK
    _, transactional = producers_of(wire, topic)
    assert transactional.current_txn_start_offset == -1
    assert transactional.coordinator_epoch >= 0


def test_describe_producers_of_what_is_not_there(wire: Wire, topic: str) -> None:
    request = DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[index])
            for name, index in (("no-such-topic", 0), (topic, 9), ("no/topic", 0))
        ]
    )
    response = wire.ask(request, DescribeProducersResponse)
    assert [entry.partitions[0].error_code for entry in response.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


# -- abort -----------------------------------------------------------------------------------------------


def test_an_administrator_ends_a_hanging_transaction(wire: Wire, topic: str) -> None:
    p = Transactor(wire, topic, version_2=False).begin()
    assert p.write(topic, b"hangs") is OK
    assert wire.produce(topic, batch_of(b"waits")).error_code == OK
    assert committed_values(wire, topic) == []
    [hanging, *_] = producers_of(wire, topic)
    producer = (hanging.producer_id, hanging.producer_epoch)
    epoch = max(hanging.coordinator_epoch, 0)
    assert write_marker(wire, topic, producer, coordinator_epoch=epoch) is OK
    assert committed_values(wire, topic) == [b"waits"]


def test_markers_of_the_past_are_refused(wire: Wire, topic: str) -> None:
    p = Transactor(wire, topic).begin()
    assert p.init() is OK
    assert p.write(topic, b"x") is OK
    stale, current = (p.producer_id, p.epoch - 1), (p.producer_id, p.epoch)
    assert write_marker(wire, topic, stale) is ErrorCode.INVALID_PRODUCER_EPOCH
    # In version 2 a marker has the next epoch, so this one could end the previous transaction (KIP-1228).
    assert write_marker(wire, topic, current, transaction_version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert p.end() is OK
    fenced = write_marker(wire, topic, (p.producer_id, p.epoch), coordinator_epoch=-1)
    assert fenced is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_markers_for_partitions_that_are_not_here(wire: Wire, topic: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write_marker(wire, "no-such-topic", (1, 0)) is unknown
    assert write_marker(wire, topic, (1, 0), partition=9) is unknown
    assert wire.ask(WriteTxnMarkersRequest(), WriteTxnMarkersResponse).markers == []


def test_markers_of_nobody_are_not_written(wire: Wire, topic: str) -> None:
    for nobody in ((-1, 0), (7, -1)):
        assert write_marker(wire, topic, nobody) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert wire.fetch(topic, 0).high_watermark == 0


def test_others_have_their_turn_while_many_markers_are_written(wire: Wire, second: Wire, topic: str) -> None:
    wire.create_topic(many := f"{topic}-many", partitions=300)
    told = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=many, partition_indexes=list(range(300)) * 2)
    markers = [
        WriteTxnMarkersRequest.WritableTxnMarker(producer_id=producer_id, topics=[told])
        for producer_id in range(30)
    ]
    wire.send(WriteTxnMarkersRequest(markers=markers))
    second.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
    assert not select.select([wire.socket], [], [], 0)[0], "all markers came before the question"
    response = wire.receive(WriteTxnMarkersResponse)
    errors = {p.error_code for m in response.markers for t in m.topics for p in t.partitions}
    assert (len(response.markers), errors) == (30, {OK})
    assert wire.fetch(many, 0).high_watermark == 30, "a partition that is named twice hears once"


def test_a_marker_from_elsewhere_decides_about_offsets_too(wire: Wire, topic: str) -> None:
    find_coordinator(wire, topic, GROUP)
    p = Transactor(wire, topic, version_2=False).begin()
    assert p.add_offsets(topic) is OK
    assert p.commit_offset(topic, topic, 4) is OK
    described = wire.ask(DescribeTransactionsRequest(transactional_ids=[topic]), DescribeTransactionsResponse)
    [place] = described.transaction_states[0].topics
    assert place.topic == "__consumer_offsets"
    [partition] = place.partitions
    error = write_marker(wire, place.topic, (p.producer_id, p.epoch), commit=True, partition=partition)
    assert error is OK
    assert committed_offset(wire, topic, topic, require_stable=True) == (4, OK)


# -- requests between brokers ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 5])
def test_partitions_of_several_transactions_at_once(wire: Wire, topic: str, version: int) -> None:
    first, second = (Transactor(wire, f"{topic}-{name}").begin() for name in ("first", "second"))

    def ask(*wanted: tuple[Transactor, str, bool]) -> list[int]:
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=p.transactional_id,
                    producer_id=p.producer_id,
                    producer_epoch=p.epoch,
                    verify_only=verify_only,
                    topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=[0])],
                )
                for p, name, verify_only in wanted
            ]
        )
        response = wire.ask(request, AddPartitionsToTxnResponse, version)
        return [
            result.topic_results[0].results_by_partition[0].partition_error_code
            for result in response.results_by_transaction
        ]

    abortable, unknown = ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask((first, topic, True), (second, topic, False)) == [abortable, OK]
    assert ask((second, topic, True), (first, "no-such-topic", False)) == [OK, unknown]
    zombie = second.copy()
    zombie.epoch -= 1
    assert ask((zombie, topic, False)) == [ErrorCode.PRODUCER_FENCED]
