"""Offsets as text: where to start and end (``earliest``, ``latest``, JSON), and what a checkpoint holds.

The JSON is that of Spark's own Kafka source: ``{"topic": {"0": 123, "1": -2}}``, -2 for earliest and -1 for
latest where it is asked for; a checkpoint holds plain offsets only.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from penstock.client.cluster import Cluster
from penstock.client.metadata import TopicPartition
from penstock.client.offsets import EARLIEST, LATEST, NO_OFFSET, IsolationLevel, list_offsets
from penstock.client.settings import ConfigError

Offsets: TypeAlias = dict[TopicPartition, int]

_SHAPE: Final = '{"topic": {"0": 23, "1": -1}}'


class Special(Enum):
    EARLIEST = EARLIEST
    LATEST = LATEST


class NoMatch(Enum):
    """What to do where no record is as new as the timestamp asked for."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Specific:
    """An offset for each partition; `EARLIEST` and `LATEST` allowed."""

    offsets: Mapping[TopicPartition, int] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ByTimestamp:
    """The first record at or after a time (ms): one for all partitions, or one for each."""

    everywhere_ms: int | None
    timestamps_ms: Mapping[TopicPartition, int] = field(hash=False)
    no_match: NoMatch


Position: TypeAlias = Special | Specific | ByTimestamp


def parse_position(text: str, *, allowed: Collection[Special]) -> Position:
    """``earliest``, ``latest`` or JSON. ``allowed``: what makes sense at this end of the range."""
    names = " or ".join(f"'{special.name.lower()}'" for special in allowed)
    expected = f"{names}, or JSON like {_SHAPE}"
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
    """Numbers by topic and partition from JSON. Raises ValueError."""
    try:
        return from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"JSON like {_SHAPE}") from None


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Offsets from the checkpoint's shape."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """The checkpoint's shape, in one order always: Spark compares offsets as text."""
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
    """Plain offsets for all ``partitions``. ``option`` names the setting in errors. Raises ConfigError."""
    match position:
        case Special():
            listed = list_offsets(cluster, dict.fromkeys(partitions, position.value), isolation)
            return {tp: found.offset for tp, found in listed.items()}
        case Specific(offsets):
            _require_same_partitions(offsets, partitions, option)
            special = {tp: offset for tp, offset in offsets.items() if offset < 0}
            listed = list_offsets(cluster, special, isolation)
            return dict(offsets) | {tp: found.offset for tp, found in listed.items()}
        case ByTimestamp():
            return _resolve_timestamps(position, partitions, cluster, isolation, option)


def _require_same_partitions(
    given: Collection[TopicPartition], assigned: Collection[TopicPartition], option: str
) -> None:
    if set(given) != set(assigned):
        raise ConfigError(
            f"option '{option}' must name all partitions that are read and no others (-1 for latest, -2 for "
            f"earliest): it names {_names(given)}, read are {_names(assigned)}"
        )


def _resolve_timestamps(
    position: ByTimestamp,
    partitions: Collection[TopicPartition],
    cluster: Cluster,
    isolation: IsolationLevel,
    option: str,
) -> Offsets:
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
            "startingOffsetsByTimestampStrategy to 'latest' to begin there with records still to come"
        )
    latest = list_offsets(cluster, dict.fromkeys(missing, LATEST), isolation)
    return offsets | {tp: found.offset for tp, found in latest.items()}


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(partitions)) or "none"
