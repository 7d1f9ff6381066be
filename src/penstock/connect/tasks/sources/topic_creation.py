"""Creates the topics of a source's records with the connector's settings (``topic.creation.*``, KIP-158)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from penstock.client.admin.topics import NewTopic, create_topics
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ServerError
from penstock.connect.configs.topic_creation import CreationGroup
from penstock.connect.errors import ConnectError
from penstock.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

_NOT_CREATED: Final = (
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Errors that leave the decision to whether the topic exists."""


class TopicCreation:
    """Creates each topic before its first record, if it is missing. For the task's thread.

    Without groups this does nothing, and the brokers create topics if they are configured to.
    """

    def __init__(self, cluster: Cluster, groups: Sequence[CreationGroup]) -> None:
        self._cluster = cluster
        self._groups = groups
        self._present: set[str] = set()

    def close(self) -> None:
        self._cluster.close()

    def require(self, topic: str) -> None:
        """Create the topic if it is missing. Raises ConnectError, and ClientError if that can be retried."""
        if not self._groups or topic in self._present:
            return
        if topic not in self._cluster.topics([topic]):
            self._create(topic)
        self._present.add(topic)

    def _create(self, topic: str) -> None:
        group = next((each for each in self._groups if each.matches(topic)), self._groups[-1])
        new = NewTopic(topic, group.partitions, group.configs, group.replication_factor)
        try:
            create_topics(self._cluster, [new])
        except ServerError as error:
            if error.retriable:
                raise
            if error.code in _NOT_CREATED and topic in self._cluster.refresh([topic]).topics:
                return
            raise ConnectError(
                f"Task failed to create new topic {new}. Ensure that the task is authorized to create topics"
                f" or that the topic exists and restart the task: {error}"
            ) from error
        log.info("created a topic topic=%s group=%s", topic, group.name)
