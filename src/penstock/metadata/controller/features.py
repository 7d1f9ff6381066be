"""Features: the supported levels, the levels a new cluster finalizes, and the versions of records they imply.

A feature is finalized only as far as this release serves it, because clients act on it: ``group.version`` 1
promises the KIP-848 protocol, ``share.version`` share groups, ``streams.version`` streams groups. The change
that implements one of them also raises its level. A data directory from Apache Kafka may have higher levels
finalized. They stay in the log, and a Kafka node serves them again, but this node does not advertise them.
``transaction.version`` is served: 1 allows fields in records of the transaction log that older nodes do not
know, and 2 is the protocol of KIP-890. ``eligible.leader.replicas.version`` (KIP-966) is served, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.metadata.image import FeatureRange
from penstock.protocol.api_keys import TARGET_METADATA_LEVEL
from penstock.protocol.messages import FeatureLevelRecord, Message

KRAFT_VERSION: Final = "kraft.version"
METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"

MIN_METADATA_LEVEL: Final = 7
"""3.3-IV3, the oldest level that a 4.x node reads."""
SCRAM_LEVEL: Final = 11
"""3.5-IV2: the log records SCRAM credentials (KIP-900)."""
NO_EPOCH_FOR_ISR_SHRINK_LEVEL: Final = 12
"""3.6-IV0: below this level a leader that shrinks its ISR gets a new leader epoch (KAFKA-15021)."""
DELEGATION_TOKEN_LEVEL: Final = 14
"""3.6-IV2: the log records delegation tokens (KAFKA-15219)."""
CONTROLLER_REGISTRATION_LEVEL: Final = 15
"""3.7-IV0: controllers register themselves (KIP-919)."""
DIRECTORY_ASSIGNMENT_LEVEL: Final = 17
"""3.7-IV2: the log records the directories of replicas (KIP-858)."""
ELR_LEVEL: Final = 23
"""4.0-IV1: the log records eligible leader replicas (KIP-966)."""
CORDONED_DIRECTORIES_LEVEL: Final = 30
"""4.3-IV0: the log records the log directories that take no new replicas (KIP-1066)."""

SUPPORTED_FEATURES: Final = (
    FeatureRange(KRAFT_VERSION, 0, 1),
    FeatureRange(METADATA_VERSION, MIN_METADATA_LEVEL, TARGET_METADATA_LEVEL),
    FeatureRange(TRANSACTION_VERSION, 0, 2),
    FeatureRange(ELIGIBLE_LEADER_REPLICAS_VERSION, 0, 1),
)

NOT_SERVED_YET: Final = frozenset({"group.version", "share.version", "streams.version"})
"""Features of the release that stay at level 0."""

DEPENDENCIES: Final[Mapping[tuple[str, int], Mapping[str, int]]] = {
    (ELIGIBLE_LEADER_REPLICAS_VERSION, 1): {METADATA_VERSION: ELR_LEVEL},
}
"""The minimum levels of other features that a level of a feature requires."""

_RECORD_VERSIONS: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    # (from metadata.version, record version), newest first
    "RegisterBrokerRecord": ((30, 4), (17, 3), (8, 2), (7, 1)),
    "BrokerRegistrationChangeRecord": ((30, 3), (17, 2), (7, 1)),
    "PartitionRecord": ((23, 2), (17, 1), (7, 0)),
    "PartitionChangeRecord": ((23, 2), (17, 1), (7, 0)),
}


def bootstrap_records() -> list[Message]:
    """The finalized features of a new cluster, for bootstrap.checkpoint."""
    return [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=TARGET_METADATA_LEVEL),
        FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=2),
        FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1),
    ]


def record_version(record: Message, metadata_version: int) -> int:
    """The version to write a record in, so that every node at ``metadata_version`` can read it."""
    for level, version in _RECORD_VERSIONS.get(type(record).__name__, ()):
        if metadata_version >= level:
            return version
    return 0


def advertised_features(finalized: Mapping[str, int]) -> dict[str, int]:
    """The finalized features that this node serves."""
    ranges = {feature.name: feature for feature in SUPPORTED_FEATURES}
    return {
        name: level
        for name, level in finalized.items()
        if name in ranges and ranges[name].min_level <= level <= ranges[name].max_level
    }
