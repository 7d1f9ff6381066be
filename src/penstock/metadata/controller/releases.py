"""Releases of Apache Kafka as levels of ``metadata.version``, and the initial features of a new cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.metadata.controller.features import (
    DEPENDENCIES,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
)
from penstock.protocol.messages import FeatureLevelRecord, Message

RELEASES: Final[Mapping[int, str]] = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}
"""The names of the levels of ``metadata.version``."""

_DEFAULT_LEVELS: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    # (from metadata.version, level), newest first
    TRANSACTION_VERSION: ((24, 2),),
    ELIGIBLE_LEADER_REPLICAS_VERSION: ((26, 1),),
}


class UnknownFeature(ValueError):
    """A release, a feature or its level does not exist; the message lists the known ones."""


def release_level(text: str) -> int:
    """The level of ``3.7-IV2``, or the newest level of ``3.7`` or ``3.7.1``. Raises UnknownFeature."""
    release = ".".join(text.split(".")[:2])
    levels = [level for level, name in RELEASES.items() if release in (name, name.partition("-")[0])]
    if not levels:
        known = ", ".join(RELEASES.values())
        raise UnknownFeature(f"Unknown metadata.version '{text}'. Supported metadata.version are: {known}")
    return levels[-1]


def initial_features(level: int, chosen: Mapping[str, int]) -> dict[str, int]:
    """The levels that a new cluster finalizes: the chosen ones, and for other features the release's default.

    ``kraft.version`` does not depend on the release. Raises UnknownFeature.
    """
    ranges = {feature.name: feature for feature in SUPPORTED_FEATURES}
    for name, wanted in chosen.items():
        if name not in ranges:
            raise UnknownFeature(f"Unsupported feature: {name}. Supported features are: {', '.join(ranges)}")
        lowest, highest = ranges[name].min_level, ranges[name].max_level
        if not lowest <= wanted <= highest:
            raise UnknownFeature(f"{name} {wanted} is not supported, expected {lowest} to {highest}")
    levels = {name: _default_level(name, level) for name in ranges if name != KRAFT_VERSION}
    levels |= {name: wanted for name, wanted in chosen.items() if name != KRAFT_VERSION}
    levels[METADATA_VERSION] = level
    for name, wanted in levels.items():
        for other, needed in DEPENDENCIES.get((name, wanted), {}).items():
            if levels.get(other, 0) < needed:
                raise UnknownFeature(
                    f"{name} {wanted} requires {other} {needed}, but it would be {levels.get(other, 0)}"
                )
    return levels


def _default_level(name: str, metadata_level: int) -> int:
    for since, level in _DEFAULT_LEVELS.get(name, ()):
        if metadata_level >= since:
            return level
    return 0


def feature_records(levels: Mapping[str, int]) -> list[Message]:
    """The records that finalize features, ``metadata.version`` first; a level of 0 needs none."""
    names = [METADATA_VERSION, *sorted(levels.keys() - {METADATA_VERSION})]
    return [FeatureLevelRecord(name=name, feature_level=levels[name]) for name in names if levels[name]]
