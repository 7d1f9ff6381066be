"""Positions in options (``earliest``, ``latest``, ``committed``, JSON, timestamps), and their offsets.

The JSON is that of Spark's own Kafka source: ``{"topic": {"0": 123, "1": -2}}``, where -2 means the earliest
and -1 the latest offset at the time of the request.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import ConsumerGroup
from penstock.client.reading.offsets import EARLIEST, LATEST, NO_OFFSET, IsolationLevel, list_offsets
from penstock.client.settings import ConfigError

Offsets: TypeAlias = dict[TopicPartition, int]

COMMITTED: Final = "committed"
_SHAPE: Final = '{"topic": {"0": 23, "1": -1}}'
RESERVED: Final = "@"
"""The start of all other keys beside the offsets in a checkpoint; no topic's name can contain it."""


class Special(Enum):
    EARLIEST = EARLIEST
    LATEST = LATEST


class NoMatch(Enum):
    """The behavior if no record is as new as the requested timestamp."""

    ERROR = "error"
    LATEST = "latest"


class NoCommit(Enum):
    """The behavior for a partition without a committed offset of the group."""

    ERROR = "error"
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Specific:
    """An offset for each partition; `EARLIEST` and `LATEST` are allowed."""

    offsets: Mapping[TopicPartition, int] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ByTimestamp:
    """The first record at or after a time (ms), the same for all partitions or one for each."""

    everywhere_ms: int | None
    timestamps_ms: Mapping[TopicPartition, int] = field(hash=False)
    no_match: NoMatch


@dataclass(frozen=True, slots=True)
class Committed:
    """The committed offsets of a consumer group."""

    group_id: str
    no_commit: NoCommit


Position: TypeAlias = Special | Specific | ByTimestamp | Committed


def parse_position(text: str, *, allowed: Collection[Special], or_committed: bool = False) -> Position:
    """Parse ``earliest``, ``latest`` or JSON. ``allowed`` are the words that this end of the range accepts.

    With ``or_committed``, an error also names ``committed``, which the caller accepts.
    """
    words = [special.name.lower() for special in allowed] + [COMMITTED] * or_committed
    expected = " or ".join(f"'{word}'" for word in words) + f", or JSON like {_SHAPE}"
    if text.strip().upper() in Special.__members__:
        special = Special[text.strip().upper()]
        if special not in allowed:
            raise ValueError(expected)
        return special
    try:
        offsets = parse_partition_numbers(text)
    except ValueError:
        raise ValueError(expected) from None
    forbidden = {special.value for special in Special if special not in allowed}
    for tp, offset in offsets.items():
        if offset < EARLIEST or offset in forbidden:
            raise ValueError(f"{expected}; {offset} for {tp} cannot be used here")
    return Specific(offsets)


def parse_partition_numbers(text: str) -> Offsets:
    """Parse numbers by topic and partition from JSON. Raises ValueError."""
    try:
        return from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"JSON like {_SHAPE}") from None


def from_json(offsets: Mapping[str, Mapping[str, Any]]) -> Offsets:
    """Return the offsets of a checkpoint's entry, without the other keys in it."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in offsets.items()
        if not topic.startswith(RESERVED)
        for partition, offset in partitions.items()
    }


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return a checkpoint's entry, always in the same order, because Spark compares offsets as text."""
    shaped: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        shaped.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return shaped


def resolve(
    position: Position,
    partitions: Collection[TopicPartition],
    cluster: Cluster,
    isolation: IsolationLevel,
    option: str,
) -> Offsets:
    """Return plain offsets for all ``partitions``.

    ``option`` is the setting to name in errors: ``startingOffsets`` or ``endingOffsets``, which stand for
    their timestamp options too. Raises ConfigError.
    """
    match position:
        case Special():
            listed = list_offsets(cluster, dict.fromkeys(partitions, position.value), isolation)
            return {tp: found.offset for tp, found in listed.items()}
        case Specific(offsets):
            _require_same_partitions(offsets, partitions, option, " (-1 for latest, -2 for earliest)")
            special = {tp: offset for tp, offset in offsets.items() if offset < 0}
            listed = list_offsets(cluster, special, isolation)
            return dict(offsets) | {tp: found.offset for tp, found in listed.items()}
        case ByTimestamp():
            return _resolve_timestamps(position, partitions, cluster, isolation, option)
        case Committed():
            return _resolve_committed(position, partitions, cluster, isolation, option)


def _require_same_partitions(
    given: Collection[TopicPartition], assigned: Collection[TopicPartition], option: str, hint: str = ""
) -> None:
    if set(given) != set(assigned):
        raise ConfigError(
            f"option '{option}' must name all partitions that are read and no others{hint}: it names "
            f"{_names(given)}, read are {_names(assigned)}"
        )


def _resolve_timestamps(
    position: ByTimestamp,
    partitions: Collection[TopicPartition],
    cluster: Cluster,
    isolation: IsolationLevel,
    option: str,
) -> Offsets:
    option = (
        f"{option}ByTimestamp" if position.everywhere_ms is None else option.replace("Offsets", "Timestamp")
    )
    if position.everywhere_ms is None:
        _require_same_partitions(position.timestamps_ms, partitions, option)
        wanted = dict(position.timestamps_ms)
    else:
        wanted = dict.fromkeys(partitions, position.everywhere_ms)
    listed = list_offsets(cluster, wanted, isolation)
    offsets = {tp: found.offset for tp, found in listed.items()}
    missing = [tp for tp, offset in offsets.items() if offset == NO_OFFSET]
    if missing and position.no_match is NoMatch.ERROR:
        raise ConfigError(
            f"option '{option}': no record is as new as the timestamp in {_names(missing)}; set "
            "startingOffsetsByTimestampStrategy to 'latest' to start there at the end of the log"
        )
    latest = list_offsets(cluster, dict.fromkeys(missing, LATEST), isolation)
    return offsets | {tp: found.offset for tp, found in latest.items()}


def _resolve_committed(
    position: Committed,
    partitions: Collection[TopicPartition],
    cluster: Cluster,
    isolation: IsolationLevel,
    option: str,
) -> Offsets:
    group = ConsumerGroup(cluster, position.group_id)
    committed = cluster.retry(lambda: group.committed(partitions))
    missing = [tp for tp in partitions if tp not in committed]
    if missing and position.no_commit is NoCommit.ERROR:
        raise ConfigError(
            f"option '{option}' is 'committed', and group '{position.group_id}' has no committed offset for "
            f"{_names(missing)}; set startingOffsetsCommittedStrategy to 'earliest' or 'latest' for these"
        )
    fallback = EARLIEST if position.no_commit is NoCommit.EARLIEST else LATEST
    listed = list_offsets(cluster, dict.fromkeys(missing, fallback), isolation)
    return {tp: found.offset for tp, found in committed.items()} | {
        tp: found.offset for tp, found in listed.items()
    }


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(partitions)) or "none"
