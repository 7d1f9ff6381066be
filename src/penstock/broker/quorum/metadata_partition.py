"""What all of the quorum's messages have in common: a list of topics with a list of partitions.

There is one, the metadata log. A request that names another is answered INVALID_REQUEST as a whole.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.storage.names import CLUSTER_METADATA_TOPIC

NOBODY: Final = -1
"""In place of a node id."""


class NotTheMetadataLog(Exception):
    """A message about another partition than the one there is."""


def only_partition(topics: list[Any], name: str | None, index: str) -> Any:
    """The metadata log's part of a message, whose fields for topic and partition have these names."""
    if (
        len(topics) != 1
        or (name is not None and getattr(topics[0], name) != CLUSTER_METADATA_TOPIC)
        or len(topics[0].partitions) != 1
        or getattr(topics[0].partitions[0], index) != 0
    ):
        raise NotTheMetadataLog
    return topics[0].partitions[0]
