"""Transactional batches in produce and fetch: permission to append, and waits of `read_committed` clients."""

import socket
from collections.abc import Callable, Iterator
from time import time_ns

import pytest

from broker_wire import Wire, batch_of, fetch_request, produce_request
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
)
from penstock.protocol.records import decode_batches
from penstock.testing import Cluster
from transaction_wire import READ_COMMITTED, Transactor, committed_values

OK = ErrorCode.NONE
LATEST = -1


@pytest.fixture
def second(node: Cluster) -> Iterator[Wire]:
    """Another connection to the shared node."""
    with Wire(node.bootstrap_servers) as connection:
        yield connection


def begin(wire: Wire, topic: str, *, version_2: bool = True) -> Transactor:
    return Transactor(wire, f"of-{topic}", version_2=version_2).begin()


def produce(
    wire: Wire, producer: Transactor, batches: list[tuple[str, int, bytes]], version: int = 12
) -> list[ErrorCode]:
    """Produce batches for each (topic, partition) in one request; return the error of each."""
    request = ProduceRequest(acks=-1, timeout_ms=10_000, transactional_id=producer.transactional_id)
    for topic, partition, records in batches:
        request.topic_data += produce_request(topic, records, partition).topic_data
    response = wire.ask(request, ProduceResponse, version)
    return [ErrorCode(p.error_code) for t in response.responses for p in t.partition_responses]


def batch_by(producer: Transactor, value: bytes, sequence: int = 0, epoch: int | None = None) -> bytes:
    used = producer.epoch if epoch is None else epoch
    return batch_of(value, producer=(producer.producer_id, used, sequence), transactional=True)


# --- permission to append


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (9, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_older_clients_must_have_added_the_partition(
    wire: Wire, topic: str, version: int, error: ErrorCode
) -> None:
    p = begin(wire, topic, version_2=False)
    wire.create_topic(f"{topic}-added")
    assert p.add_partitions(f"{topic}-added", 0) == [OK]
    assert produce(wire, p, [(topic, 0, batch_by(p, b"x"))], version) == [error]
    assert p.add_partitions(topic, 0) == [OK]
    assert produce(wire, p, [(topic, 0, batch_by(p, b"x"))], version) == [OK]
    assert p.end() is OK
    assert committed_values(wire, topic) == [b"x"]


def test_verification_can_be_switched_off(start_node: Callable[..., Cluster]) -> None:
    node = start_node(transaction_partition_verification_enable="false")
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("unverified")
        p = begin(wire, "unverified", version_2=False)
        assert produce(wire, p, [("unverified", 0, batch_by(p, b"x"))], 11) == [OK]
        newer = begin(wire, "newer")
        assert newer.write("unverified", b"y") is OK
        assert newer.end() is OK


def test_one_request_may_begin_in_many_partitions(wire: Wire) -> None:
    wire.create_topic("many-at-once", partitions=5)
    p = begin(wire, "many-at-once")
    batches = [("many-at-once", partition, batch_by(p, b"%d" % partition)) for partition in range(6)]
    assert produce(wire, p, batches) == [OK] * 5 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    more = [("many-at-once", partition, batch_by(p, b"+", sequence=1)) for partition in range(5)]
    assert produce(wire, p, more) == [OK] * 5
    assert p.end() is OK
    assert [committed_values(wire, "many-at-once", partition) for partition in range(5)] == [
        [b"%d" % partition, b"+"] for partition in range(5)
    ]


def test_a_request_is_of_one_producer(wire: Wire, topic: str) -> None:
    wire.create_topic(f"{topic}-2")
    p = begin(wire, topic)
    batches = [(topic, 0, batch_by(p, b"x")), (f"{topic}-2", 0, batch_by(p, b"x", epoch=p.epoch + 1))]
    assert produce(wire, p, batches) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert p.write(topic, b"y") is OK
    assert p.end() is OK


def test_a_damaged_batch_is_refused_and_begins_nothing(wire: Wire, topic: str) -> None:
    p = begin(wire, topic)
    good = batch_by(p, b"x" * 50)
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    assert produce(wire, p, [(topic, 0, damaged)]) == [ErrorCode.CORRUPT_MESSAGE]
    assert produce(wire, p, [(topic, 0, good[:30])]) == [ErrorCode.INVALID_RECORD]
    assert latest(wire, topic, READ_COMMITTED) == 0
    assert produce(wire, p, [(topic, 0, good)]) == [OK]


def test_zombies_are_refused_before_their_partition_is_added(wire: Wire, topic: str) -> None:
    old = begin(wire, topic)
    new = begin(wire, topic)
    assert old.write(topic, b"x") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert new.write(topic, b"y") is OK
    assert new.end() is OK
    assert committed_values(wire, topic) == [b"y"]


@pytest.mark.parametrize("version_2", [False, True], ids=["v1", "v2"])
def test_batches_that_are_converted_belong_to_the_transaction_too(wire: Wire, version_2: bool) -> None:
    topic = f"converted-{version_2}"
    wire.create_topic(topic, compression_type="zstd")
    p = begin(wire, topic, version_2=version_2)
    for value in (b"a" * 100, b"b" * 100):
        assert p.write(topic, value) is OK
    assert latest(wire, topic, READ_COMMITTED) == 0
    assert p.end() is OK
    assert committed_values(wire, topic) == [b"a" * 100, b"b" * 100]


def test_the_next_transaction_may_come_while_the_last_ones_markers_are_written(
    start_node: Callable[..., Cluster],
) -> None:
    """The client gets no retriable error: the node asks the coordinator, here until it agrees."""
    count = 1000
    node = start_node(add_partitions_to_txn_retry_backoff_max_ms="20000")
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("wide", partitions=count)
        wire.create_topic("next")
        p = begin(wire, "next")
        assert set(produce(wire, p, [("wide", n, batch_by(p, b"x")) for n in range(count)])) == {OK}
        assert p.end() is OK
        assert p.write("next", b"next") is OK
        assert p.end() is OK
        assert committed_values(wire, "next") == [b"next"]


# --- readers


def list_offsets(wire: Wire, topic: str, timestamp: int, isolation_level: int) -> int:
    wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[wanted])],
    )
    answer = wire.ask(request, ListOffsetsResponse, 7).topics[0].partitions[0]
    assert answer.error_code == 0
    return answer.offset


def latest(wire: Wire, topic: str, isolation_level: int) -> int:
    return list_offsets(wire, topic, LATEST, isolation_level)


def test_offsets_are_listed_up_to_the_first_open_transaction(wire: Wire, topic: str) -> None:
    started_ms = time_ns() // 1_000_000 - 10_000  # retention would remove much older records
    wire.produce(topic, batch_of(b"plain", timestamp=started_ms + 1000))
    p = begin(wire, topic)
    assert p.write(topic, b"open") is OK
    wire.produce(topic, batch_of(b"after", timestamp=started_ms + 5000))
    assert [latest(wire, topic, level) for level in (0, READ_COMMITTED)] == [3, 1]
    assert [list_offsets(wire, topic, started_ms + 500, level) for level in (0, READ_COMMITTED)] == [0, 0]
    assert [list_offsets(wire, topic, started_ms + 2000, level) for level in (0, READ_COMMITTED)] == [1, -1]
    assert p.end() is OK
    assert [latest(wire, topic, level) for level in (0, READ_COMMITTED)] == [4, 4]


def is_silent(wire: Wire, for_s: float = 0.2) -> bool:
    wire.socket.settimeout(for_s)
    try:
        wire.socket.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        wire.socket.settimeout(20)
    return False


def test_read_committed_waits_for_the_end_of_the_transaction(wire: Wire, second: Wire, topic: str) -> None:
    """Only `read_uncommitted` fetches return before the transaction ends."""
    p = begin(wire, topic)
    assert p.write(topic, b"a") is OK
    second.send(fetch_request(topic, {0: 0}, max_wait_ms=20_000, isolation_level=READ_COMMITTED), 12)
    assert p.write(topic, b"b") is OK
    wire.produce(topic, batch_of(b"plain"))
    assert is_silent(second)
    assert p.end() is OK
    data = second.receive(FetchResponse).responses[0].partitions[0]
    assert [r.value for r in decode_batches(bytes(data.records or b""))] == [b"a", b"b", b"plain"]
    assert (data.last_stable_offset, data.high_watermark) == (4, 4)


def test_read_uncommitted_does_not_wait(wire: Wire, second: Wire, topic: str) -> None:
    p = begin(wire, topic)
    second.send(fetch_request(topic, {0: 0}, max_wait_ms=20_000), 12)
    assert p.write(topic, b"a") is OK
    data = second.receive(FetchResponse).responses[0].partitions[0]
    assert [r.value for r in decode_batches(bytes(data.records or b""))] == [b"a"]
    assert (data.last_stable_offset, data.high_watermark) == (0, 1)
    assert data.aborted_transactions is None


def test_min_bytes_counts_what_became_stable(wire: Wire, second: Wire, topic: str) -> None:
    """The second of two open transactions still blocks later records; the rest is less than min_bytes."""
    first = begin(wire, topic)
    other = Transactor(wire, f"other-of-{topic}").begin()
    assert first.write(topic, b"a" * 1000) is OK
    assert other.write(topic, b"b" * 1000) is OK
    second.send(
        fetch_request(topic, {0: 0}, max_wait_ms=20_000, min_bytes=2000, isolation_level=READ_COMMITTED), 12
    )
    assert first.end() is OK
    assert is_silent(second)
    assert other.end() is OK
    data = second.receive(FetchResponse).responses[0].partitions[0]
    assert len(list(decode_batches(bytes(data.records or b"")))) == 2


def test_transactions_hold_readers_back_after_a_restart(start_node: Callable[..., Cluster]) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("kept")
        p = begin(wire, "kept")
        assert p.write("kept", b"open") is OK
        wire.produce("kept", batch_of(b"plain"))
    node.kill()
    node.start()
    with Wire(node.bootstrap_servers) as wire, Wire(node.bootstrap_servers) as reader:
        assert latest(wire, "kept", READ_COMMITTED) == 0
        reader.send(fetch_request("kept", {0: 0}, max_wait_ms=20_000, isolation_level=READ_COMMITTED), 12)
        wire.produce("kept", batch_of(b"more"))
        assert is_silent(reader)
        p.wire = wire
        assert p.end(commit=False) is OK
        data = reader.receive(FetchResponse).responses[0].partitions[0]
        assert [entry.first_offset for entry in data.aborted_transactions or ()] == [0]
        assert committed_values(wire, "kept") == [b"plain", b"more"]
