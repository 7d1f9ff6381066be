"""The three topics of a worker, in the records of Kafka Connect 4.3, so that Apache's workers can share them.

Each store follows its topic with the client's `Follower` and keeps an image of it in memory. The images, and
the records that operations write, are pure (`configs/`, `offsets/`, `statuses/`); the modules beside them
follow, write, create and check topics.
"""

from penstock.connect.stores.configs.image import ClusterConfig
from penstock.connect.stores.configs.model import (
    Change,
    ConnectorRemoved,
    ConnectorUpdated,
    LoggerLevelSet,
    RestartRequest,
    RestartRequested,
    SessionKey,
    SessionKeyUpdated,
    TargetState,
    TargetStateChanged,
    TasksUpdated,
)
from penstock.connect.stores.configs.store import ConfigStore, leader_transactional_id
from penstock.connect.stores.key_value import KeyValue
from penstock.connect.stores.offsets.connector_offsets import ConnectorOffset, ConnectorOffsets
from penstock.connect.stores.offsets.keys import normalized
from penstock.connect.stores.offsets.store import OffsetStore
from penstock.connect.stores.offsets.writer import OffsetWriter
from penstock.connect.stores.statuses.model import State, Status, TopicStatus
from penstock.connect.stores.statuses.store import StatusStore
from penstock.connect.stores.topics import InternalTopic, config_topic, offset_topic, status_topic
from penstock.connect.stores.writers import PrivilegedWriteError, TransactionalWriter

__all__ = [
    "Change",
    "ClusterConfig",
    "ConfigStore",
    "ConnectorOffset",
    "ConnectorOffsets",
    "ConnectorRemoved",
    "ConnectorUpdated",
    "InternalTopic",
    "KeyValue",
    "LoggerLevelSet",
    "OffsetStore",
    "OffsetWriter",
    "PrivilegedWriteError",
    "RestartRequest",
    "RestartRequested",
    "SessionKey",
    "SessionKeyUpdated",
    "State",
    "Status",
    "StatusStore",
    "TargetState",
    "TargetStateChanged",
    "TasksUpdated",
    "TopicStatus",
    "TransactionalWriter",
    "config_topic",
    "leader_transactional_id",
    "normalized",
    "offset_topic",
    "status_topic",
]
