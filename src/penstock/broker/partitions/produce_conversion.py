"""Convert produced batches to the codec of their topic, and name the records for which a batch is refused.

All of this runs in worker threads. Batches come here if `produce_checks` left their check to a worker: large
ones, those that a compacted topic refuses for records without a key or whose timestamps are outside the
topic's bounds, where the response names each offending record (KIP-467), and all batches of a topic with
another codec than the producer's or, as in Confluent's server, with schema validation (`schema_validation`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NoReturn, Protocol

from penstock.broker.partitions.produce_checks import (
    CODECS,
    LOG_APPEND_TIME,
    timestamps_are_within_bounds,
)
from penstock.broker.partitions.schema_validation import NoSchemas, SchemaIds, refused
from penstock.protocol import batch
from penstock.protocol.batch import NO_TIMESTAMP, InvalidBatch
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.kernels import kernel
from penstock.protocol.records import Record, decode_records, recompress, records_section

if TYPE_CHECKING:
    from penstock.broker.partitions.schema_validation import SchemaRule
    from penstock.storage.config import LogConfig

ERRORS_SHOWN_MAX = 3
ERRORS_NAMED_MAX = 1000
"""The limit on the records that a response names. Kafka names all, but a batch of 1 MB can hold millions."""
SCHEMA_ERRORS_NAMED_MAX = 10
"""The same limit for schema errors, as each of them costs a request to the registry."""
DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
"""The limit on the decompressed records of a batch: more than the largest request can hold uncompressed.

Kafka has no such limit."""


class RecordsRefused(InvalidBatch):
    """Some records are refused, and so the whole batch is; `records` has their indexes and reasons."""

    def __init__(self, message: str, code: ErrorCode, records: list[tuple[int, str]]) -> None:
        super().__init__(message, code)
        self.records = records


class ConfiguredReplica(Protocol):
    """The parts of a replica that decide how its batches are converted."""

    topic: str
    partition: int
    config: LogConfig
    compression_levels: dict[int, int]
    schema_rules: tuple[SchemaRule, ...]


def convert(records: bytearray, replica: ConfiguredReplica, now_ms: int, schemas: SchemaIds) -> bytearray:
    """Check the batch and return it in the topic's codec, with its true latest timestamp.

    Raises RecordsRefused; MalformedRecords if the records cannot be decoded or exceed
    DECOMPRESSED_BYTES_MAX; KafkaError if the schema registry does not answer.
    """
    config = replica.config
    header = batch.parse_header(records)
    section = records_section(records, header, max_bytes=DECOMPRESSED_BYTES_MAX, for_now=True)
    checked = kernel.check_records(section, header)
    if replica.schema_rules:
        _check_schemas(decode_records(header, section), replica, schemas)
    if config.compacts and checked.keyless:
        _refuse_keyless(decode_records(header, section), replica)
    if config.message_timestamp_type != LOG_APPEND_TIME:
        earliest_ms, latest_ms = checked.earliest_timestamp, checked.latest_timestamp
        if not timestamps_are_within_bounds(earliest_ms, latest_ms, config, now_ms):
            _refuse_timestamps(decode_records(header, section), config, now_ms)
        if latest_ms != header.max_timestamp:
            header = batch.set_max_timestamp(records, header, latest_ms)
    codec = CODECS.get(config.compression_type, header.compression)
    if codec == header.compression:
        return records
    return recompress(header, section, codec, replica.compression_levels.get(codec))


def _refuse_keyless(decoded: Iterator[Record], replica: ConfiguredReplica) -> NoReturn:
    message = (
        "Compacted topic cannot accept message without key in topic partition "
        f"{replica.topic}-{replica.partition}"
    )
    without_key = (index for index, record in enumerate(decoded) if record.key is None)
    named = [(index, message) for index in islice(without_key, ERRORS_NAMED_MAX)]
    count = len(named) + sum(1 for _ in without_key)
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{why}')" for index, why in named[:ERRORS_SHOWN_MAX]
    )
    raise RecordsRefused(
        f"One or more records have been rejected due to {count} record errors in total, and only "
        f"showing the first three errors at most: [{shown}]",
        ErrorCode.INVALID_RECORD,
        named,
    )


def _check_schemas(decoded: Iterator[Record], replica: ConfiguredReplica, schemas: SchemaIds) -> None:
    where = f"{replica.topic}-{replica.partition}"
    try:
        breaking = refused(decoded, replica.topic, replica.schema_rules, schemas)
        found = list(islice(breaking, SCHEMA_ERRORS_NAMED_MAX))
    except NoSchemas as error:  # the producer may retry
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"records for {where} can't be checked: {error}"
        ) from error
    if found:
        raise RecordsRefused(
            f"One or more records for {where} don't have a valid schema id: {found[0][1]}",
            ErrorCode.INVALID_RECORD,
            found,
        )


def _refuse_timestamps(decoded: Iterator[Record], config: LogConfig, now_ms: int) -> NoReturn:
    earliest_ms = now_ms - config.message_timestamp_before_max_ms
    latest_ms = now_ms + config.message_timestamp_after_max_ms
    out_of_range = (
        (
            index,
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
            f"The timestamp should be within [{earliest_ms}, {latest_ms}]",
        )
        for index, record in enumerate(decoded)
        if record.timestamp != NO_TIMESTAMP and not earliest_ms <= record.timestamp <= latest_ms
    )
    raise RecordsRefused(
        "One or more records have been rejected due to invalid timestamp",
        ErrorCode.INVALID_TIMESTAMP,
        list(islice(out_of_range, ERRORS_NAMED_MAX)),
    )
