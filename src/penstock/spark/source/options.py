"""The options of the source, checked, as one picklable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.config import ClientConfig
from penstock.client.fetcher import FetchConfig
from penstock.client.settings import ConfigError, boolean, from_properties, one_of, whole_number
from penstock.spark.options import Options
from penstock.spark.source.offsets import (
    ByTimestamp,
    NoMatch,
    Offsets,
    Position,
    Special,
    Specific,
    parse_partition_numbers,
    parse_position,
)
from penstock.spark.source.subscription import Subscription, take_subscription

_MAX_INT64 = 2**63 - 1
# Here kafka.request.timeout.ms and kafka.default.api.timeout.ms say how patient to be.
_OF_SPARKS_CONSUMER = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    client: ClientConfig
    fetch: FetchConfig
    subscription: Subscription
    starting: Position
    ending: Position
    include_headers: bool
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_partitions: int | None
    max_records_per_partition: int | None

    @property
    def start_moves(self) -> bool:
        """Whether the start, asked for again later, would be another one: where the log ends, it moves."""
        match self.starting:
            case Special():
                return self.starting is Special.LATEST
            case Specific(offsets):
                return Special.LATEST.value in offsets.values()
            case ByTimestamp():
                return True


def parse_general(options: Mapping[str, str]) -> SourceOptions:
    """Check what batch and streaming reads have in common, before Spark knows which of them it will be."""
    return _parse(Options(options), streaming=None)


def parse_batch(options: Mapping[str, str]) -> SourceOptions:
    return _parse(Options(options), streaming=False)


def parse_streaming(options: Mapping[str, str]) -> SourceOptions:
    return _parse(Options(options), streaming=True)


def _parse(options: Options, streaming: bool | None) -> SourceOptions:
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            options.refuse(name, "a streaming query has no end; use a batch read, or Trigger.AvailableNow")
    subscription = take_subscription(options)
    parsed = {
        "starting": _take_position(options, "starting", streaming),
        "ending": _take_position(options, "ending", streaming),
    }
    include_headers = options.take("includeHeaders", boolean, False)
    fail_on_data_loss = options.take("failOnDataLoss", boolean, True)
    max_offsets = options.take("maxOffsetsPerTrigger", whole_number(1, _MAX_INT64), 0)
    min_partitions = options.take("minPartitions", whole_number(1), 0)
    max_records = options.take("maxRecordsPerPartition", whole_number(1, _MAX_INT64), 0)
    options.ignore(*_OF_SPARKS_CONSUMER)
    properties = options.finish(FetchConfig)
    return SourceOptions(
        client=ClientConfig.from_properties(properties),
        fetch=from_properties(FetchConfig, properties),
        subscription=subscription,
        include_headers=include_headers,
        fail_on_data_loss=fail_on_data_loss,
        max_offsets_per_trigger=max_offsets or None,
        min_partitions=min_partitions or None,
        max_records_per_partition=max_records or None,
        **parsed,
    )


def _take_position(options: Options, end: str, streaming: bool | None) -> Position:
    """``startingOffsets`` and its kin, or ``endingOffsets`` and its; the finer one wins, as in Spark."""
    default: Position = Special.LATEST if end == "ending" or streaming else Special.EARLIEST
    allowed = list(Special)
    if streaming is False:
        allowed = [Special.EARLIEST if end == "starting" else Special.LATEST]
    offsets = options.take(f"{end}Offsets", lambda text: parse_position(text, allowed=allowed), default)
    strategy = NoMatch.LATEST
    if end == "starting":
        choice = one_of(*(choice.value for choice in NoMatch))
        strategy = NoMatch(options.take("startingOffsetsByTimestampStrategy", choice, NoMatch.ERROR.value))
    no_timestamps: Offsets = {}
    by_partition = options.take(f"{end}OffsetsByTimestamp", parse_partition_numbers, no_timestamps)
    everywhere_ms = options.take(f"{end}Timestamp", whole_number(0, _MAX_INT64), -1)
    if everywhere_ms >= 0:
        return ByTimestamp(everywhere_ms, {}, strategy)
    if by_partition:
        if any(timestamp_ms < 0 for timestamp_ms in by_partition.values()):
            raise ConfigError(
                f"option '{end}OffsetsByTimestamp': expected timestamps in ms, found a negative one"
            )
        return ByTimestamp(None, by_partition, strategy)
    return offsets
