"""Write the markers that end transactions to the logs of the partitions that this node leads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from penstock.broker.coordination.groups.runtime import GROUP_METADATA_TOPIC
from penstock.broker.coordination.partition import Outcome
from penstock.broker.setup.host import NodeHost
from penstock.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.coordination.marker import Marker
    from penstock.broker.partitions.replica_manager import ReplicaManager

__all__ = ["MarkerHost", "write_marker"]


class MarkerHost(NodeHost, Protocol):
    """A broker with replicas, which also coordinates groups."""

    groups: GroupCoordinatorRuntime
    replicas: ReplicaManager


def write_marker(host: MarkerHost, topic: str, partition: int, marker: Marker) -> Outcome:
    """Write a marker to a replica of this node; in `__consumer_offsets` through the group coordinator.

    The outcome is known once the marker is committed. There is no timeout.
    """
    replica = host.replicas.get(topic, partition)
    if replica is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        if topic == GROUP_METADATA_TOPIC:
            return host.groups.end_transaction(partition, marker)
        end_offset = replica.append_marker(**marker._asdict()).last_offset + 1
    except KafkaError as error:
        return error.code
    if replica.high_watermark >= end_offset:
        return ErrorCode.NONE
    committed: asyncio.Future[ErrorCode] = host.loop.create_future()
    replica.when_committed(
        end_offset, lambda error: None if committed.done() else committed.set_result(error)
    )
    return committed
