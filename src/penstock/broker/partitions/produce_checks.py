"""Check the records of produced batches before the append.

Like Kafka's LogValidator, the broker reads every record of every batch: its boundaries, the number of
records, their offsets and timestamps, and in a compacted topic whether they have keys. Consumers could not
read past a batch whose records are not what its header states, and compaction would stop there. A compiled
kernel reads the records without the interpreter's lock, on the event loop unless the batch is so large that
a worker thread costs less. `penstock.produce.validation=header` trusts the headers instead.

Kafka allows gaps between the offsets of an uncompressed batch; here no produced batch may have any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.protocol import batch
from penstock.protocol.batch import BatchHeader
from penstock.protocol.compression import Codec, DecompressedTooLarge
from penstock.protocol.kernels import kernel
from penstock.protocol.records import records_section

if TYPE_CHECKING:
    from penstock.broker.partitions.topic_settings import TopicSettings
    from penstock.protocol.kernels.record_checks_py import CheckedRecords
    from penstock.storage.config import LogConfig

CODECS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LOG_APPEND_TIME: Final = "LogAppendTime"
LOOP_BYTES_MAX: Final = 4096 if kernel.IMPLEMENTATION == "pure" else 1024 * 1024
"""The largest batch that the event loop checks: 0.6 ms with the smallest records, 0.1 ms with 100 bytes."""
COMPRESSED_LOOP_BYTES_MAX: Final = min(LOOP_BYTES_MAX, 16 * 1024)
"""The largest compressed batch that the event loop decompresses."""
DECOMPRESSED_LOOP_BYTES_MAX: Final = min(LOOP_BYTES_MAX, 64 * 1024)
"""The limit on what the event loop decompresses it to: 30 to 150 µs, depending on the codec."""
NO_LOWER_BOUND_MS: Final = 2**63 - 1
FOREVER_MS: Final = 2**63 - 1


class BatchChecks:
    """The checks of the batches that are produced to the partitions of one topic."""

    __slots__ = (
        "_clock_ms",
        "_codec",
        "_compacts",
        "_config",
        "_has_lower_bound",
        "_has_schema_rules",
        "_reads_records",
        "_stamps_append_time",
        "_takes_plain_batches",
        "_timestamps_good_until_ms",
    )

    def __init__(self, settings: TopicSettings, clock_ms: Callable[[], int]) -> None:
        config = settings.log
        self._config = config
        self._clock_ms = clock_ms
        self._codec = CODECS.get(config.compression_type)
        self._compacts = config.compacts
        self._has_schema_rules = bool(settings.schema_rules)
        self._stamps_append_time = config.message_timestamp_type == LOG_APPEND_TIME
        self._has_lower_bound = (
            not self._stamps_append_time and config.message_timestamp_before_max_ms != NO_LOWER_BOUND_MS
        )
        self._reads_records = settings.validates_records or self._compacts or self._has_lower_bound
        self._takes_plain_batches = (
            settings.validates_records
            and self._codec in (None, Codec.NONE)
            and not (self._compacts or self._has_schema_rules or self._has_lower_bound)
        )
        self._timestamps_good_until_ms = FOREVER_MS if self._stamps_append_time else 0

    def check_plain(self, records: memoryview) -> BatchHeader | None:
        """Check an uncompressed batch and its header with one call, as most batches need nothing else.

        Returns None if the batch must be checked by `batch.validate` and `check` instead.
        """
        if not self._takes_plain_batches or len(records) > LOOP_BYTES_MAX:
            return None
        header = kernel.check_plain_batch(records)
        if header is None or not self._accepts(header.max_timestamp, header.max_timestamp):
            return None
        return header

    def check(self, header: BatchHeader, records: memoryview) -> BatchHeader | None:
        """Check a batch whose header is valid; return the header, corrected in ``records`` if it was wrong.

        Returns None if a worker must check the batch (`produce_conversion.convert`). Raises MalformedRecords.
        """
        if self._has_schema_rules or self._codec not in (None, header.compression):
            return None
        if (
            not self._reads_records
            and header.base_timestamp <= header.max_timestamp
            and self._accepts(header.base_timestamp, header.max_timestamp)
        ):
            return header
        checked = _check_on_loop(header, records)
        if checked is None or (checked.keyless and self._compacts):
            return None
        if not self._accepts(checked.earliest_timestamp, checked.latest_timestamp):
            return None
        if checked.latest_timestamp == header.max_timestamp or self._stamps_append_time:
            return header
        return batch.set_max_timestamp(records, header, checked.latest_timestamp)

    def _accepts(self, earliest_ms: int, latest_ms: int) -> bool:
        """Whether timestamps in this range are within the topic's bounds.

        The clock only moves forward, so a timestamp that is not too far in the future now will not be later.
        That way most batches are accepted without reading the clock.
        """
        if latest_ms <= self._timestamps_good_until_ms and not self._has_lower_bound:
            return True
        now_ms = self._clock_ms()
        self._timestamps_good_until_ms = now_ms + self._config.message_timestamp_after_max_ms
        return timestamps_are_within_bounds(earliest_ms, latest_ms, self._config, now_ms)


def timestamps_are_within_bounds(earliest_ms: int, latest_ms: int, config: LogConfig, now_ms: int) -> bool:
    return (
        now_ms - config.message_timestamp_before_max_ms <= earliest_ms
        and latest_ms <= now_ms + config.message_timestamp_after_max_ms
    )


def _check_on_loop(header: BatchHeader, records: memoryview) -> CheckedRecords | None:
    """Check the records if that takes less time than to hand the batch to a worker, else return None."""
    if header.compression == Codec.NONE:
        if len(records) > LOOP_BYTES_MAX:
            return None
        return kernel.check_records(records[batch.HEADER_SIZE :], header)
    if len(records) > COMPRESSED_LOOP_BYTES_MAX:
        return None
    try:
        section = records_section(records, header, max_bytes=DECOMPRESSED_LOOP_BYTES_MAX)
    except DecompressedTooLarge:
        return None
    return kernel.check_records(section, header)
