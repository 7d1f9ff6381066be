"""Produce: accepted and rejected requests, their errors and versions."""

import time

import pytest

from broker_wire import Wire, batch_of, produce_request
from penstock.protocol.batch import parse_header
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceResponse,
)
from penstock.protocol.records import decode_batches
from transaction_wire import TRANSACTION, find_coordinator

HOUR_MS = 3_600_000


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("acks", [1, -1])
def test_every_version_appends_and_answers_the_offset(
    wire: Wire, topic: str, version: int, acks: int
) -> None:
    first = wire.produce(topic, batch_of(b"a", b"b"), acks=acks, version=version)
    second = wire.produce(topic, batch_of(b"c"), acks=acks, version=version)
    assert (first.error_code, first.base_offset) == (0, 0)
    assert (second.error_code, second.base_offset) == (0, 2)
    assert wire.values(topic) == [b"a", b"b", b"c"]


def test_version_13_names_topics_by_id(wire: Wire) -> None:
    topic_id = wire.create_topic("produce-by-id")
    response = wire.ask(produce_request(topic_id, batch_of(b"x")), ProduceResponse, 13)
    assert response.responses[0].topic_id == topic_id
    assert response.responses[0].partition_responses[0].error_code == 0
    response = wire.ask(produce_request(b"\x07" * 16, batch_of(b"x")), ProduceResponse, 13)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_acks_zero_is_appended_and_not_answered(wire: Wire, topic: str) -> None:
    wire.send(produce_request(topic, batch_of(b"silent"), acks=0), 9, answered=False)
    assert wire.produce(topic, batch_of(b"loud")).base_offset == 1
    assert wire.values(topic) == [b"silent", b"loud"]


def test_acks_zero_that_fails_closes_the_connection(wire: Wire) -> None:
    wire.send(produce_request("no-such-topic", batch_of(b"x"), acks=0), 9, answered=False)
    assert wire.is_closed()


def test_an_unknown_partition_is_refused_and_the_others_are_not(wire: Wire, topic: str) -> None:
    request = produce_request(topic, batch_of(b"good"))
    bad = produce_request("no-such-topic", batch_of(b"bad"))
    other = produce_request(topic, batch_of(b"bad"), partition=7)
    request.topic_data += [*bad.topic_data, *other.topic_data]
    response = wire.ask(request, ProduceResponse, 12)
    codes = [p.error_code for t in response.responses for p in t.partition_responses]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert response.responses[1].partition_responses[0].base_offset == -1


def damaged(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


def test_bad_batches_are_refused_with_kafkas_errors(wire: Wire, topic: str) -> None:
    good = batch_of(b"x" * 50)
    cases = {
        "checksum": (damaged(good, 70), ErrorCode.CORRUPT_MESSAGE),
        "magic": (damaged(good, 16), ErrorCode.CORRUPT_MESSAGE),
        "two batches": (good + good, ErrorCode.INVALID_RECORD),
        "cut short": (good[:-1], ErrorCode.INVALID_RECORD),
        "empty": (b"", ErrorCode.INVALID_RECORD),
        "null": (None, ErrorCode.INVALID_RECORD),
    }
    for name, (records, expected) in cases.items():
        request = produce_request(topic, records)
        answer = wire.ask(request, ProduceResponse, 12).responses[0].partition_responses[0]
        assert answer.error_code == expected, name
        assert answer.error_message, name
    assert wire.values(topic) == []


def test_required_acks_must_be_one_of_three(wire: Wire, topic: str) -> None:
    assert wire.produce(topic, batch_of(b"x"), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_internal_topics_take_nothing_from_clients(wire: Wire) -> None:
    find_coordinator(wire, "anyone", TRANSACTION)
    answer = wire.produce("__transaction_state", batch_of(b"x"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_transactional_batches_need_a_transactional_id(wire: Wire, topic: str) -> None:
    answer = wire.produce(topic, batch_of(b"x", producer=(5, 0, 0), transactional=True))
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_max_message_bytes(wire: Wire) -> None:
    wire.create_topic("small-messages", max_message_bytes="200")
    assert wire.produce("small-messages", batch_of(b"x" * 50)).error_code == 0
    answer = wire.produce("small-messages", batch_of(b"x" * 300))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_log_append_time_is_stamped_and_answered(wire: Wire) -> None:
    wire.create_topic("append-time", message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000
    answer = wire.produce("append-time", batch_of(b"a", b"b", timestamp=1000))
    assert before_ms <= answer.log_append_time_ms <= before_ms + 10_000
    records = list(decode_batches(bytes(wire.fetch("append-time").records or b"")))
    assert {record.timestamp for record in records} == {answer.log_append_time_ms}


def test_create_time_outside_of_the_bounds_names_the_records(wire: Wire, topic: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    answer = wire.produce(topic, batch_of(b"a", b"b", timestamp=now_ms + 2 * HOUR_MS))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert wire.produce(topic, batch_of(b"a", timestamp=now_ms + HOUR_MS // 2)).error_code == 0
    assert wire.produce(topic, batch_of(b"a", timestamp=0)).error_code == 0
    wire.create_topic("no-old-records", message_timestamp_before_max_ms="1000")
    answer = wire.produce("no-old-records", batch_of(b"a", timestamp=now_ms - HOUR_MS))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP


def test_a_compacted_topic_needs_keys(wire: Wire) -> None:
    wire.create_topic("compacted", cleanup_policy="compact")
    answer = wire.produce("compacted", batch_of(b"a", b"b"))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert answer.error_message is not None
    assert wire.produce("compacted", batch_of(b"a", key=b"k")).error_code == 0
    assert wire.values("compacted") == [b"a"]


def test_so_many_records_without_a_key_are_not_all_named(wire: Wire) -> None:
    wire.create_topic("compacted-many", cleanup_policy="compact")
    answer = wire.produce("compacted-many", batch_of(*[b""] * 1500))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert len(answer.record_errors) == 1000
    assert "due to 1500 record errors" in (answer.error_message or "")


@pytest.mark.parametrize("config", [{"cleanup_policy": "compact"}, {"compression_type": "gzip"}])
def test_a_batch_that_decompresses_without_end_is_refused(wire: Wire, config: dict[str, str]) -> None:
    name = "bomb-" + "-".join(config)
    wire.create_topic(name, **config)
    answer = wire.produce(name, batch_of(bytes(130 << 20), key=b"k", compression=4))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "decompresses to more than" in (answer.error_message or "")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_compression_type_recompresses_and_keeps_the_order(wire: Wire, codec: str) -> None:
    name = f"recompressed-{codec}"
    wire.create_topic(name, compression_type=codec)
    sent = [b"%d" % number * 100 for number in range(20)]
    for value in sent:
        wire.send(produce_request(name, batch_of(value, compression=2)), 9)
    offsets = [wire.receive(ProduceResponse).responses[0].partition_responses[0] for _ in sent]
    assert [answer.base_offset for answer in offsets] == list(range(20))
    data = wire.fetch(name)
    codecs = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
    assert parse_header(bytes(data.records or b"")).compression == codecs.index(codec)
    assert wire.values(name) == sent


def test_a_producer_that_leaves_out_the_latest_timestamp_is_corrected(wire: Wire, topic: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    data = bytearray(batch_of(b"a", timestamp=now_ms))
    header = parse_header(data)
    from penstock.protocol.batch import set_max_timestamp

    set_max_timestamp(data, header, -1)
    assert wire.produce(topic, bytes(data)).error_code == 0
    assert parse_header(bytes(wire.fetch(topic).records or b"")).max_timestamp == now_ms


def test_idempotent_producers(wire: Wire, topic: str) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    first = wire.ask(request, InitProducerIdResponse)
    second = wire.ask(request, InitProducerIdResponse)
    assert first.error_code == 0
    assert first.producer_id != second.producer_id
    assert first.producer_epoch == 0

    def send(sequence: int, *values: bytes) -> ProduceResponse.PartitionProduceResponse:
        return wire.produce(topic, batch_of(*values, producer=(first.producer_id, 0, sequence)))

    assert send(0, b"a", b"b").base_offset == 0
    assert send(2, b"c").base_offset == 2
    assert send(0, b"a", b"b").base_offset == 0, "a duplicate is answered with the first result"
    assert send(9, b"z").error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert wire.values(topic) == [b"a", b"b", b"c"]


def test_a_transactional_id_is_not_empty(wire: Wire) -> None:
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
    assert wire.ask(request, InitProducerIdResponse).error_code == ErrorCode.INVALID_REQUEST
