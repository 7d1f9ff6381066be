"""The bytes in `__consumer_offsets`, as read by Apache Kafka's own decoder and by ours."""

import json
import re
from pathlib import Path

import pytest

from kafka_node import run_java
from penstock.broker.coordination.partition import encode_records
from penstock.coordinators.group.group import ClassicGroup
from penstock.coordinators.group.member import Member
from penstock.coordinators.group.offset_store import CommittedOffset
from penstock.coordinators.group.records import (
    CoordinatorRecord,
    empty_group_record,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from penstock.protocol.record_serde import Coordinator, decode_coordinator_key, decode_coordinator_value
from penstock.protocol.records import decode_batch

NOW_MS = 1_700_000_000_000
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
ASSIGNMENT = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x07\xff\xff\xff\xff"
TOPIC_ID = bytes(range(16))


def every_kind_of_record() -> list[CoordinatorRecord]:
    group = ClassicGroup("grüppe", NOW_MS)
    member = Member(
        member_id="m-1",
        group_instance_id="inst",
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=45_000,
        protocols=(("range", SUBSCRIPTION), ("sticky", b"other")),
    )
    group.add(member, "consumer")
    group.protocol_name = "range"
    group.generation_id = 3
    return [
        empty_group_record(ClassicGroup("new", NOW_MS)),
        group_record(group, [member], "m-1", {"m-1": ASSIGNMENT}),
        offset_record("grüppe", "t", 0, CommittedOffset(42, 5, "meta", NOW_MS, None, TOPIC_ID)),
        offset_record("simple", "t", 1, CommittedOffset(43, -1, "", NOW_MS, NOW_MS + 9, bytes(16))),
        offset_tombstone("grüppe", "t", 0),
        group_tombstone("grüppe"),
    ]


def test_records_are_read_back_as_they_were() -> None:
    records = every_kind_of_record()
    stored = list(decode_batch(encode_records(records, NOW_MS, compression=0)))
    assert [record.timestamp for record in stored] == [NOW_MS] * len(records)
    for record, there in zip(records, stored, strict=True):
        assert there.key is not None
        key = decode_coordinator_key(Coordinator.GROUP, there.key)
        assert key == record.key
        if record.value is None:
            assert there.value is None
            continue
        assert there.value is not None
        value, version = decode_coordinator_value(key, there.value)
        assert version == record.value_version
        if version == 4 or key.ID == 2:  # version 1 of a commit contains no leader epoch
            assert value == record.value


@pytest.mark.kafka
def test_kafkas_own_decoder_reads_them(kafka_libs: Path, tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    segment = directory / "00000000000000000000.log"
    segment.write_bytes(encode_records(every_kind_of_record(), NOW_MS, compression=0))
    dump = run_java(
        kafka_libs,
        "org.apache.kafka.tools.DumpLogSegments",
        *("--offsets-decoder", "--files", str(segment)),
    )
    assert "isvalid: true" in dump
    rows = re.findall(r"key: (\{.*\}) payload: (.*)$", dump, re.MULTILINE)
    decoded = [(json.loads(key)["data"], None if v == "<DELETE>" else json.loads(v)) for key, v in rows]
    no_members = {"protocolType": "", "generation": 0, "protocol": None, "leader": None, "members": []}
    member = {
        "memberId": "m-1",
        "groupInstanceId": "inst",
        "clientId": "c",
        "clientHost": "/127.0.0.1",
        "rebalanceTimeout": 60_000,
        "sessionTimeout": 45_000,
        "subscription": {"topics": ["t"], "userData": None},
        "assignment": {"assignedPartitions": [{"topic": "t", "partitions": [7]}], "userData": None},
    }
    assert decoded == [
        ({"group": "new"}, {"version": "3", "data": {**no_members, "currentStateTimestamp": NOW_MS}}),
        (
            {"group": "grüppe"},
            {
                "version": "3",
                "data": {
                    "protocolType": "consumer",
                    "generation": 3,
                    "protocol": "range",
                    "leader": "m-1",
                    "currentStateTimestamp": NOW_MS,
                    "members": [member],
                },
            },
        ),
        (
            {"group": "grüppe", "topic": "t", "partition": 0},
            {
                "version": "4",
                "data": {
                    "offset": 42,
                    "leaderEpoch": 5,
                    "metadata": "meta",
                    "commitTimestamp": NOW_MS,
                    "topicId": "AAECAwQFBgcICQoLDA0ODw",
                },
            },
        ),
        (
            {"group": "simple", "topic": "t", "partition": 1},
            {
                "version": "1",
                "data": {
                    "offset": 43,
                    "metadata": "",
                    "commitTimestamp": NOW_MS,
                    "expireTimestamp": NOW_MS + 9,
                },
            },
        ),
        ({"group": "grüppe", "topic": "t", "partition": 0}, None),
        ({"group": "grüppe"}, None),
    ]
