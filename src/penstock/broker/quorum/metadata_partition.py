"""Find the metadata log in the quorum's messages, which all have a list of topics with a list of partitions.

The metadata log is the only partition. A request that names another one is answered INVALID_REQUEST as a
whole.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.storage.names import CLUSTER_METADATA_TOPIC

NOBODY: Final = -1
"""The value in place of a node id if there is no node."""


class NotTheMetadataLog(Exception):
    """The message names another partition than the metadata log."""


def only_partition(topics: list[Any], name: str | None, index: str) -> Any:
    """Return the metadata log's part of a message.

    ``name`` and ``index`` are the names of the message's fields for topic and partition. Raises
    NotTheMetadataLog.
    """
    if (
        len(topics) != 1
        or (name is not None and getattr(topics[0], name) != CLUSTER_METADATA_TOPIC)
        or len(topics[0].partitions) != 1
        or getattr(topics[0].partitions[0], index) != 0
    ):
        raise NotTheMetadataLog
    return topics[0].partitions[0]
