"""The start and end positions of a read: keywords, offsets by partition, and points in time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final, TypeAlias, cast

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.offsets import EARLIEST, LATEST, NO_OFFSET, IsolationLevel, list_offsets
from penstock.client.settings import ConfigError

# An offset, "earliest" or "latest", or a time. A number is an offset for a single partition; for all of them
# it is a time in ms, because one offset for several logs makes no sense.
PartitionPosition: TypeAlias = int | str | datetime
Position: TypeAlias = (
    str | int | datetime | Mapping[int, PartitionPosition] | Mapping[str, Mapping[int, PartitionPosition]]
)

_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_EXPECTED: Final = (
    "'earliest', 'latest', a datetime with a time zone or ms since 1970, or offsets by partition such as "
    "{0: 23, 1: 'earliest'}, grouped by topic if there are several"
)


def resolve(
    position: Position,
    partitions: Collection[TopicPartition],
    cluster: Cluster,
    isolation: IsolationLevel,
    argument: str,
) -> dict[TopicPartition, int]:
    """Return the offset of each partition for a position.

    A time means the first record at or after it, or the end. ``argument`` names the position in errors.
    Raises ConfigError or ClientError.
    """
    offsets: dict[TopicPartition, int] = {}
    asked: dict[TopicPartition, int] = {}
    for tp, wanted in _by_partition(position, partitions, argument).items():
        if isinstance(wanted, int) and isinstance(position, Mapping):
            offsets[tp] = _checked_offset(wanted, tp, argument)
        else:
            asked[tp] = _as_listed(wanted, argument)
    listed = {tp: found.offset for tp, found in list_offsets(cluster, asked, isolation).items()}
    later = [tp for tp, offset in listed.items() if offset == NO_OFFSET]
    latest = list_offsets(cluster, dict.fromkeys([*offsets, *later], LATEST), isolation)
    for tp, offset in offsets.items():
        if offset > latest[tp].offset:
            raise ConfigError(
                f"'{argument}': offset {offset} is beyond the end of {tp}, which is {latest[tp].offset}"
            )
    return offsets | listed | {tp: latest[tp].offset for tp in later}


def _by_partition(
    position: Position, partitions: Collection[TopicPartition], argument: str
) -> dict[TopicPartition, PartitionPosition]:
    if not isinstance(position, Mapping):
        return dict.fromkeys(partitions, position)
    topics = {tp.topic for tp in partitions}
    by_topic = cast("Mapping[object, object]", position)
    if len(topics) == 1 and not any(isinstance(key, str) for key in position):
        by_topic = {next(iter(topics)): position}
    given: dict[TopicPartition, PartitionPosition] = {}
    for topic, positions in by_topic.items():
        if not isinstance(topic, str) or not isinstance(positions, Mapping):
            raise ConfigError(f"'{argument}': expected {_EXPECTED}; found {position!r}")
        for partition, wanted in positions.items():
            if isinstance(partition, bool) or not isinstance(partition, int):
                raise ConfigError(f"'{argument}': expected partition numbers, found {partition!r}")
            given[TopicPartition(topic, partition)] = wanted
    if given.keys() != set(partitions):
        raise ConfigError(
            f"'{argument}' must name all partitions that are read and no others: it names "
            f"{_names(given)}, but the read covers {_names(partitions)}"
        )
    return given


def _checked_offset(offset: int, tp: TopicPartition, argument: str) -> int:
    if isinstance(offset, bool) or offset < 0:
        raise ConfigError(f"'{argument}': expected an offset of at least 0 for {tp}, found {offset!r}")
    return offset


def _as_listed(wanted: object, argument: str) -> int:
    """Convert a position to ListOffsets' argument: a special number or a time in ms."""
    if isinstance(wanted, str) and wanted in _WORDS:
        return _WORDS[wanted]
    if isinstance(wanted, datetime) and wanted.tzinfo is not None and wanted.timestamp() >= 0:
        return round(wanted.timestamp() * 1000)
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 0:
        return wanted
    raise ConfigError(f"'{argument}': expected {_EXPECTED}; found {wanted!r}")


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(partitions)) or "none"
