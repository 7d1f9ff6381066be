"""DescribeLogDirs (35): report the directory and the size of each partition.

Versions 1 to 5. Needs DESCRIBE on the cluster; versions 1 and 2 refuse by an empty list, without an error.

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: flexible encoding (KIP-482)
- 3: an error code for the request (KIP-784)
- 4: `total_bytes` and `usable_bytes` of a directory (KIP-827)
- 5: `is_cordoned` (KIP-1066)
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.replica import Replica
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.storage.directories.log_manager import LogManager

Result = DescribeLogDirsResponse.DescribeLogDirsResult
Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
Partition = DescribeLogDirsResponse.DescribeLogDirsPartition


class Parts(Protocol):
    """The parts of the node that this API uses."""

    logs: LogManager
    replicas: ReplicaManager


def handle(parts: Parts, request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    context.permissions.require(Operation.DESCRIBE)
    by_directory: dict[Path, list[Replica]] = {directory.path: [] for directory in parts.logs.directories}
    for replica in _asked_for(parts, request):
        directory = parts.logs.directory_of(replica.topic, replica.partition)
        if directory is not None:
            by_directory[directory.path].append(replica)
    offline = [
        Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(path)) for path in parts.logs.offline
    ]
    return DescribeLogDirsResponse(
        results=[*(_describe(parts, path, replicas) for path, replicas in by_directory.items()), *offline]
    )


def _asked_for(parts: Parts, request: DescribeLogDirsRequest) -> Iterable[Replica]:
    if request.topics is None:
        return parts.replicas
    wanted = [(topic.topic, partition) for topic in request.topics for partition in topic.partitions]
    found = (parts.replicas.get(topic, partition) for topic, partition in wanted)
    return [replica for replica in found if replica is not None]


def _describe(parts: Parts, path: Path, replicas: list[Replica]) -> Result:
    topics: dict[str, list[Partition]] = defaultdict(list)
    for replica in replicas:
        topics[replica.topic].append(
            Partition(
                partition_index=replica.partition,
                partition_size=replica.log.size_bytes,
                offset_lag=max(0, replica.high_watermark - replica.log.log_end_offset),
            )
        )
    try:
        volume = os.statvfs(path)
    except OSError:
        return Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(path))
    return Result(
        log_dir=str(path),
        topics=[Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=volume.f_frsize * volume.f_blocks,
        usable_bytes=volume.f_frsize * volume.f_bavail,
        is_cordoned=path in parts.logs.cordoned,
    )


API = (
    Api(DescribeLogDirsRequest)
    .on_broker(lambda node: node, handle)
    .needs((Operation.DESCRIBE, ResourceType.CLUSTER))
)
