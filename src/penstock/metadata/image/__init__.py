"""The metadata image: the state that results from replaying the records of the metadata log.

This package holds that state, and code that applies records to it or turns it into records.
"""

from penstock.metadata.image.cluster import BrokerRegistration, ClusterImage, Endpoint, FeatureRange
from penstock.metadata.image.configs import ConfigResource, ConfigsImage, ResourceType
from penstock.metadata.image.image import MetadataDelta, MetadataImage
from penstock.metadata.image.topics import (
    LEADER_UNCHANGED,
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    RESERVED_DIRECTORIES,
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
    TopicImage,
    TopicsImage,
)

__all__ = [
    "LEADER_UNCHANGED",
    "LOST_DIRECTORY",
    "MIGRATING_DIRECTORY",
    "NO_LEADER",
    "RESERVED_DIRECTORIES",
    "UNASSIGNED_DIRECTORY",
    "BrokerRegistration",
    "ClusterImage",
    "ConfigResource",
    "ConfigsImage",
    "Endpoint",
    "FeatureRange",
    "MetadataDelta",
    "MetadataImage",
    "PartitionRegistration",
    "ResourceType",
    "TopicImage",
    "TopicsImage",
]
