"""The source's options, validated, as one picklable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from penstock.arrow.layout import Layout
from penstock.client.config import ClientConfig
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.settings import ConfigError, boolean, from_properties, one_of, text, whole_number
from penstock.spark.options import Options
from penstock.spark.source.decoding import take_dead_letter_topic, take_layout
from penstock.spark.source.durations import duration_ms
from penstock.spark.source.offsets import (
    COMMITTED,
    ByTimestamp,
    Committed,
    NoCommit,
    NoMatch,
    Offsets,
    Position,
    Special,
    Specific,
    parse_partition_numbers,
    parse_position,
)
from penstock.spark.source.retries import OffsetRetries
from penstock.spark.source.subscription import Subscription, take_subscription

_MAX_INT64 = 2**63 - 1
# The source creates no group members, so there is no group id that needs a prefix.
_WITHOUT_EFFECT = ("groupIdPrefix",)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one read.

    ``client`` is the driver's; the tasks' ``task_client`` may have another timeout.
    """

    client: ClientConfig
    task_client: ClientConfig
    fetch: FetchConfig
    subscription: Subscription
    starting: Position
    ending: Position
    layout: Layout
    dead_letter_topic: str | None
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_partitions: int | None
    max_records_per_partition: int | None
    max_bytes_per_partition: int | None
    group_id: str | None
    group_recommit_ms: int
    offset_retries: OffsetRetries

    @property
    def start_moves(self) -> bool:
        """Whether the start would differ if it were requested again later, as the end of the log does."""
        match self.starting:
            case Special():
                return self.starting is Special.LATEST
            case Specific(offsets):
                return Special.LATEST.value in offsets.values()
            case ByTimestamp() | Committed():
                return True


def parse_general(options: Mapping[str, str]) -> SourceOptions:
    """Check the options that batch and streaming reads share, before Spark has chosen one of them."""
    return _parse(Options(options), streaming=None)


def parse_batch(options: Mapping[str, str], planned: StructType | None = None) -> SourceOptions:
    """Parse a batch read's options; ``planned`` has the columns that Spark has fixed, if any."""
    return _parse(Options(options), streaming=False, planned=planned)


def parse_streaming(options: Mapping[str, str], planned: StructType | None = None) -> SourceOptions:
    """Parse a streaming query's options; ``planned`` has the columns that Spark has fixed, if any."""
    return _parse(Options(options), streaming=True, planned=planned)


def _parse(options: Options, streaming: bool | None, planned: StructType | None = None) -> SourceOptions:
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            options.refuse(name, "a streaming query has no end; use a batch read, or Trigger.AvailableNow")
    subscription = take_subscription(options)
    group_id = options.take_property("group.id", text, None)
    parsed = {
        "starting": _take_position(options, "starting", streaming, group_id),
        "ending": _take_position(options, "ending", streaming, None),
    }
    layout = take_layout(options, subscription, planned)
    dead_letter_topic = take_dead_letter_topic(options, subscription, layout)
    fail_on_data_loss = options.take("failOnDataLoss", boolean, True)
    max_offsets = options.take("maxOffsetsPerTrigger", whole_number(1, _MAX_INT64), 0)
    min_offsets = options.take("minOffsetsPerTrigger", whole_number(1, _MAX_INT64), 0)
    if max_offsets and min_offsets > max_offsets:
        raise ConfigError(
            f"option 'minOffsetsPerTrigger' is {min_offsets}: expected at most maxOffsetsPerTrigger, "
            f"{max_offsets}"
        )
    max_trigger_delay_ms = options.take("maxTriggerDelay", duration_ms, 15 * 60_000)
    min_partitions = options.take("minPartitions", whole_number(1), 0)
    max_partitions = options.take("maxPartitions", whole_number(1), 0)
    if max_partitions and min_partitions > max_partitions:
        raise ConfigError(
            f"option 'minPartitions' is {min_partitions}: expected at most maxPartitions, {max_partitions}"
        )
    max_records = options.take("maxRecordsPerPartition", whole_number(1, _MAX_INT64), 0)
    if max_partitions and max_records:
        raise ConfigError(
            "options 'maxPartitions' and 'maxRecordsPerPartition' contradict each other: set one of them"
        )
    max_bytes = options.take("maxBytesPerPartition", whole_number(1, _MAX_INT64), 0)
    recommit_ms = options.take("groupRecommitInterval", duration_ms, 10 * 60_000)
    retries = OffsetRetries(
        max(1, options.take("fetchOffset.numRetries", whole_number(0), 3)),
        options.take("fetchOffset.retryIntervalMs", whole_number(0), 1000),
    )
    poll_timeout_ms = options.take("kafkaConsumer.pollTimeoutMs", whole_number(1), 0)
    options.ignore(*_WITHOUT_EFFECT)
    properties = {"isolation.level": "read_committed"} | options.finish(FetchConfig)
    client = ClientConfig.from_properties(properties)
    return SourceOptions(
        client=client,
        task_client=replace(client, api_timeout_ms=poll_timeout_ms) if poll_timeout_ms else client,
        fetch=from_properties(FetchConfig, properties),
        subscription=subscription,
        layout=layout,
        dead_letter_topic=dead_letter_topic,
        fail_on_data_loss=fail_on_data_loss,
        max_offsets_per_trigger=max_offsets or None,
        min_offsets_per_trigger=min_offsets or None,
        max_trigger_delay_ms=max_trigger_delay_ms,
        min_partitions=min_partitions or None,
        max_partitions=max_partitions or None,
        max_records_per_partition=max_records or None,
        max_bytes_per_partition=max_bytes or None,
        group_id=group_id,
        group_recommit_ms=recommit_ms,
        offset_retries=retries,
        **parsed,
    )


def _take_position(options: Options, end: str, streaming: bool | None, group_id: str | None) -> Position:
    """Take ``startingOffsets`` or ``endingOffsets``, and the timestamp options for the same end.

    Spark's precedence applies: one timestamp for all, then timestamps by partition, then offsets.
    """
    default: Position = Special.LATEST if end == "ending" or streaming else Special.EARLIEST
    allowed = list(Special)
    if streaming is False:
        allowed = [Special.EARLIEST if end == "starting" else Special.LATEST]
    may_be_committed = end == "starting"

    def parse_offsets(given: str) -> Position:
        if may_be_committed and given.strip().lower() == COMMITTED:
            return Committed(group_id or "", NoCommit.ERROR)
        return parse_position(given, allowed=allowed, or_committed=may_be_committed)

    offsets = options.take(f"{end}Offsets", parse_offsets, default)
    strategy = NoMatch.LATEST
    no_commit = NoCommit.ERROR
    if end == "starting":
        choice = one_of(*(choice.value for choice in NoMatch))
        strategy = NoMatch(options.take("startingOffsetsByTimestampStrategy", choice, NoMatch.ERROR.value))
        choice = one_of(*(choice.value for choice in NoCommit))
        no_commit = NoCommit(options.take("startingOffsetsCommittedStrategy", choice, NoCommit.ERROR.value))
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
    if not isinstance(offsets, Committed):
        return offsets
    if not offsets.group_id:
        raise ConfigError("option 'startingOffsets' is 'committed': expected the option group.id as well")
    return replace(offsets, no_commit=no_commit)
