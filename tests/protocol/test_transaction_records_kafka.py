"""Apache Kafka's own decoder reads the records of transactions as they are written here."""

import json
import re
from pathlib import Path

import pytest

from kafka_node import run_java
from penstock.protocol.messages import TransactionLogKey, TransactionLogValue
from penstock.protocol.record_serde import encode_coordinator_key, encode_versioned
from penstock.protocol.records import Record, encode_batch

pytestmark = pytest.mark.kafka

NOW_MS = 1_700_000_000_000
STATES = range(8)  # Empty to PrepareEpochFence
PARTITIONS = [TransactionLogValue.PartitionsSchema(topic="t", partition_ids=[0, 2])]


def value_in(state: int) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=70 + state,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=state,
        transaction_partitions=PARTITIONS if state else None,
        transaction_last_update_timestamp_ms=NOW_MS + 1,
        transaction_start_timestamp_ms=NOW_MS,
    )


def shown(state: int, version: int) -> dict[str, object]:
    return {
        "version": str(version),
        "data": {
            "producerId": 70 + state,
            "producerEpoch": 3,
            "transactionTimeoutMs": 60_000,
            "transactionStatus": state,
            "transactionPartitions": [{"topic": "t", "partitionIds": [0, 2]}] if state else None,
            "transactionLastUpdateTimestampMs": NOW_MS + 1,
            "transactionStartTimestampMs": NOW_MS,
        },
    }


def test_kafkas_own_decoder_reads_transaction_records(kafka_libs: Path, tmp_path: Path) -> None:
    cases = [(f"tx-{version}-{state}", state, version) for version in (0, 1) for state in STATES]
    values = [(name, encode_versioned(value_in(state), version)) for name, state, version in cases]
    segment = tmp_path / "__transaction_state-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(
        encode_batch(
            [
                Record(0, NOW_MS, encode_coordinator_key(TransactionLogKey(transactional_id=name)), value)
                for name, value in [*values, ("forgotten", None)]
            ]
        )
    )
    tool = ["org.apache.kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files", str(segment)]
    dump = run_java(kafka_libs, *tool, timeout_s=60)
    assert "isvalid: true" in dump
    rows = re.findall(r"key: (\{.*\}) payload: (.*)$", dump, re.MULTILINE)
    assert [json.loads(key)["data"]["transactionalId"] for key, _ in rows] == [
        *(name for name, _, _ in cases),
        "forgotten",
    ]
    assert [json.loads(value) for _, value in rows[:-1]] == [shown(state, v) for _, state, v in cases]
    assert rows[-1][1] == "<DELETE>"
