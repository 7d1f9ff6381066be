"""Check and convert the produced batches whose records the broker must decode.

The work runs in worker threads, except for short checks on the event loop. Kafka has these exceptions to
"never decode": a topic with another codec than the producer's, a compacted topic, which refuses records
without a key, and timestamps outside the topic's bounds, where the response names each offending record
(KIP-467). LogAppendTime is no exception: it rewrites only the header. Confluent adds one: a topic that
validates the schemas of its records (`schema_validation`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NoReturn, Protocol

from penstock.broker.partitions.schema_validation import NoSchemas, SchemaIds, refused
from penstock.protocol import batch
from penstock.protocol.batch import BatchHeader, InvalidBatch, MalformedRecords
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.kernels import kernel
from penstock.protocol.records import (
    Record,
    decode_batch,
    decode_records,
    recompress,
    records_section,
    restore_max_timestamp,
)

if TYPE_CHECKING:
    from penstock.broker.partitions.schema_validation import SchemaRule
    from penstock.broker.partitions.topic_settings import TopicSettings
    from penstock.storage.config import LogConfig

CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NO_TIMESTAMP = -1
LOG_APPEND_TIME = "LogAppendTime"
ERRORS_SHOWN_MAX = 3
ERRORS_NAMED_MAX = 1000
"""The limit on the records that a response names. Kafka names all, but a batch of 1 MB can hold millions."""
SCHEMA_ERRORS_NAMED_MAX = 10
"""The same limit for schema errors, as each of them costs a request to the registry."""
GLANCE_BYTES_MAX = 1024 * 1024
"""The largest batch that the event loop checks for keys: 1.5 ms with the smallest records."""
DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
"""The limit on the decompressed records of a batch: more than the largest request can hold uncompressed.

Kafka has no such limit."""
NO_LOWER_BOUND_MS = 2**63 - 1


class RecordsRefused(InvalidBatch):
    """Some records are refused, and so the whole batch is; `records` has their indexes and reasons."""

    def __init__(self, message: str, code: ErrorCode, records: list[tuple[int, str]]) -> None:
        super().__init__(message, code)
        self.records = records


class ConfiguredReplica(Protocol):
    """The parts of a replica that decide how its batches are checked and converted."""

    topic: str
    partition: int
    config: LogConfig
    compression_levels: dict[int, int]
    schema_rules: tuple[SchemaRule, ...]


def sees_every_batch(settings: TopicSettings) -> bool:
    """Whether the topic's settings may require decoding even of batches with unsuspicious timestamps."""
    config = settings.log
    return (
        bool(settings.schema_rules)
        or config.compacts
        or config.compression_type != "producer"
        or (
            config.message_timestamp_before_max_ms != NO_LOWER_BOUND_MS
            and config.message_timestamp_type != LOG_APPEND_TIME
        )
    )


def is_needed(replica: ConfiguredReplica, header: BatchHeader, records: memoryview, now_ms: int) -> bool:
    """Whether this batch needs `convert`, because its header and a short check don't suffice."""
    config = replica.config
    if replica.schema_rules:
        return True
    if config.compression_type != "producer" and CODECS[config.compression_type] != header.compression:
        return True
    if config.compacts and not _has_keys_at_a_glance(header, records):
        return True
    return config.message_timestamp_type != LOG_APPEND_TIME and _timestamps_in_doubt(header, config, now_ms)


def _has_keys_at_a_glance(header: BatchHeader, records: memoryview) -> bool:
    """Whether every record has a key, as far as the event loop can check that in a short time.

    For an ordinary batch, handing it to a worker costs more than the scan by the compiled kernel: 0.3 µs for
    16 KiB.
    """
    if header.compression != Codec.NONE or len(records) > GLANCE_BYTES_MAX or kernel.IMPLEMENTATION == "pure":
        return False
    try:
        return kernel.count_keyless(records[batch.HEADER_SIZE :], header) == 0
    except MalformedRecords:
        return False  # `convert` refuses the batch with the reason


def convert(records: bytearray, replica: ConfiguredReplica, now_ms: int, schemas: SchemaIds) -> bytearray:
    """Check the batch and return it in the topic's codec, with its true latest timestamp.

    Raises RecordsRefused; MalformedRecords if the records cannot be decoded or exceed
    DECOMPRESSED_BYTES_MAX; KafkaError if the schema registry does not answer.
    """
    config = replica.config
    header = batch.parse_header(records)
    if replica.schema_rules and not header.is_control:
        _check_schemas(_decode(records), replica, schemas)
    if config.compacts:
        section = records_section(records, header, max_bytes=DECOMPRESSED_BYTES_MAX)
        if kernel.count_keyless(section, header):
            _refuse_keyless(decode_records(header, section), replica)
    if config.message_timestamp_type != LOG_APPEND_TIME and _timestamps_in_doubt(header, config, now_ms):
        _check_timestamps(_decode(records), config, now_ms)
        header = restore_max_timestamp(records, header)
    if config.compression_type == "producer" or CODECS[config.compression_type] == header.compression:
        return records
    codec = CODECS[config.compression_type]
    return bytearray(
        recompress(records, codec, replica.compression_levels.get(codec), DECOMPRESSED_BYTES_MAX)
    )


def _timestamps_in_doubt(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether the header's two timestamps don't prove that the timestamps of all records are valid.

    If the latest timestamp is before the first, the client did not fill it in, or it isn't the latest.
    """
    return (
        header.max_timestamp < header.base_timestamp
        or header.max_timestamp > now_ms + config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms != NO_LOWER_BOUND_MS
    )


def _decode(records: bytearray) -> Iterator[Record]:
    return decode_batch(records, max_bytes=DECOMPRESSED_BYTES_MAX)


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


def _check_timestamps(decoded: Iterator[Record], config: LogConfig, now_ms: int) -> None:
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
    named = list(islice(out_of_range, ERRORS_NAMED_MAX))
    if named:
        raise RecordsRefused(
            "One or more records have been rejected due to invalid timestamp",
            ErrorCode.INVALID_TIMESTAMP,
            named,
        )
