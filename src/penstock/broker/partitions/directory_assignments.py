"""Report to the controller in which log directories this broker keeps its replicas (KIP-858).

This is Kafka's AssignmentsManager. With one directory, the controller knows it without a report. With
several, the broker chooses, and until it has reported its choice, the failure of a directory would not move
the leaderships of its partitions. The choice is reported even if the directory has failed meanwhile, so that
the controller learns which partitions failed with it. A replica that may be in an offline directory, and
whose directory was never reported, is reported as lost, so that other replicas lead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

from penstock.broker.peers import ControllerChannel, PeerError
from penstock.metadata.controller.features import DIRECTORY_ASSIGNMENT_LEVEL
from penstock.metadata.image import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, MetadataImage
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from penstock.protocol.uuids import uuid_from_text
from penstock.storage.directories.log_manager import LogManager

log = logging.getLogger(__name__)

ASSIGNMENTS_PER_REQUEST: Final = 2250
"""The same as in Kafka: this number fits into one batch of the metadata log with room to spare."""
FIRST_PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 10.0
TIMEOUT_MS: Final = 30_000


class _Place(NamedTuple):
    topic_id: bytes
    partition_id: int


class DirectoryAssignments:
    """The reporter of this broker.

    After each change it compares the image with the disks, and sends the differences until there are none.
    """

    def __init__(
        self,
        node_id: int,
        image: MetadataImage,
        logs: LogManager,
        broker_epoch: Callable[[], int],
        channel: ControllerChannel,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._logs = logs
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._loop = loop
        self._unreported: dict[_Place, bytes] = {}
        """The directory of each replica for which the controller has another directory, or none yet."""
        self._sending: asyncio.Task[None] | None = None

    def partitions_changed(self, changed: Iterable[tuple[bytes, int]]) -> None:
        """Compare partitions that are new or have changed, after their logs were opened here."""
        if self._image.metadata_version < DIRECTORY_ASSIGNMENT_LEVEL:
            return
        for topic_id, partition_id in sorted(changed):
            self._compare(_Place(topic_id, partition_id))
        if self._unreported and self._sending is None:
            self._sending = self._loop.create_task(self._send())
            self._sending.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop reporting."""
        sending = self._sending
        if sending is not None:
            sending.cancel()
            await asyncio.wait((sending,))

    def _compare(self, place: _Place) -> None:
        topic = self._image.topics.by_id.get(place.topic_id)
        partition = None if topic is None else topic.partitions.get(place.partition_id)
        registered = None if partition is None else partition.directory(self._node_id)
        if topic is None or registered is None:
            self._unreported.pop(place, None)
            return
        directory = self._logs.directory_of(topic.name, place.partition_id)
        if directory is None and self._logs.offline and registered == UNASSIGNED_DIRECTORY:
            self._unreported.setdefault(place, LOST_DIRECTORY)
            return
        if directory is not None and directory.properties is not None:
            actual = uuid_from_text(directory.properties.directory_id)
            if actual != registered:
                self._unreported[place] = actual
                return
        if self._unreported.get(place) == registered:
            del self._unreported[place]

    async def _send(self) -> None:
        pause_s = FIRST_PAUSE_S
        while self._unreported:
            some = dict(islice(self._unreported.items(), ASSIGNMENTS_PER_REQUEST))
            problem = await self._report(some)
            if problem is None:
                pause_s = FIRST_PAUSE_S
                continue
            log.warning("directories of replicas not reported count=%d problem=%s", len(some), problem)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _report(self, some: dict[_Place, bytes]) -> str | None:
        """Report some replicas; return the reason if that failed, or None."""
        try:
            response = await self._channel.call(self._request(some), AssignReplicasToDirsResponse, TIMEOUT_MS)
        except (PeerError, KafkaError) as error:
            return str(error)
        if response.error_code:
            return ErrorCode.of(response.error_code).name
        for directory in response.directories:
            for topic in directory.topics:
                for answer in topic.partitions:
                    # A refused replica does not belong to this broker any more, or the image will show that
                    # soon.
                    place = _Place(topic.topic_id, answer.partition_index)
                    if self._unreported.get(place) == directory.id:
                        del self._unreported[place]
        unanswered = [
            place for place, directory_id in some.items() if self._unreported.get(place) == directory_id
        ]
        return f"{len(unanswered)} of the assignments not answered" if unanswered else None

    def _request(self, some: dict[_Place, bytes]) -> AssignReplicasToDirsRequest:
        request = AssignReplicasToDirsRequest
        by_directory: dict[bytes, dict[bytes, list[int]]] = {}
        for place, directory_id in some.items():
            by_topic = by_directory.setdefault(directory_id, {})
            by_topic.setdefault(place.topic_id, []).append(place.partition_id)
        return request(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                request.DirectoryData(
                    id=directory_id,
                    topics=[
                        request.TopicData(
                            topic_id=topic_id,
                            partitions=[request.PartitionData(partition_index=index) for index in partitions],
                        )
                        for topic_id, partitions in by_topic.items()
                    ],
                )
                for directory_id, by_topic in by_directory.items()
            ],
        )

    def _ended(self, sending: asyncio.Task[None]) -> None:
        self._sending = None
        if not sending.cancelled() and (error := sending.exception()) is not None:
            log.error("directories of replicas not reported", exc_info=error)
