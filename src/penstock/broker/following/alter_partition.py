"""Send changes of in-sync replicas to the controller (AlterPartition, KIP-497 and KIP-903).

One request is in flight at a time. The next one carries the latest proposal of each partition that submitted
one meanwhile. A request is retried until it is answered. If the metadata log has made a proposal void
meanwhile, the controller and the partition recognize that by its epochs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from penstock.broker.peers import PeerTimedOut, PeerViolation
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from penstock.broker.partitions.leadership import IsrProposal
    from penstock.broker.partitions.replicated_partition import ReplicatedPartition

log = logging.getLogger(__name__)

Response = TypeVar("Response", bound=Message)

RETRY_S: Final = 0.05
"""The pause after a request that was refused as a whole; it doubles with each refusal in a row."""
RETRY_MAX_S: Final = 1.0

PartitionKey = tuple[bytes, int]
"""The topic id and the partition number."""


class Controller(Protocol):
    """The connection to the active controller."""

    async def call(self, request: Message, response_type: type[Response]) -> Response:
        """Return its response, however long that takes. Raises PeerError when the node stops."""


class IsrStats:
    """Counters of the outcomes of proposals since the start."""

    __slots__ = ("expands", "failed", "shrinks")

    def __init__(self) -> None:
        self.shrinks = 0
        self.expands = 0
        self.failed = 0


class _Item(NamedTuple):
    partition: ReplicatedPartition
    proposal: IsrProposal


class AlterPartitionManager:
    """The sender of AlterPartition requests. It belongs to the event loop.

    Args:
        controller: returns the connection to the active controller, once there is one.
        broker_epoch: returns the epoch of this node's registration.
    """

    def __init__(
        self,
        node_id: int,
        controller: Callable[[], Controller],
        broker_epoch: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.stats = IsrStats()
        self._node_id = node_id
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._loop = loop
        self._unsent: dict[PartitionKey, _Item] = {}
        self._sending: asyncio.Task[None] | None = None

    def submit(self, partition: ReplicatedPartition, proposal: IsrProposal) -> None:
        """Send the proposal with the next request; it replaces an earlier one of the partition."""
        self._unsent[partition.replica.topic_id, partition.replica.partition] = _Item(partition, proposal)
        if self._sending is None:
            self._sending = self._loop.create_task(self._send_all())

    async def close(self) -> None:
        """Stop sending."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send_all(self) -> None:
        pause_s = RETRY_S
        try:
            while self._unsent:
                items, self._unsent = self._unsent, {}
                if await self._send(items):
                    pause_s = RETRY_S
                else:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, RETRY_MAX_S)
        except PeerTimedOut as error:
            log.info("AlterPartition stopped error=%s", error)
        finally:
            self._sending = None

    async def _send(self, items: dict[PartitionKey, _Item]) -> bool:
        """Send one request and return whether no proposal of it must be sent again.

        Newer proposals replace those to retry. A proposal is never dropped: its partition makes no other one
        before it has received the outcome of this one.
        """
        request = self._request(items)
        try:
            response = await self._controller().call(request, AlterPartitionResponse)
        except (KafkaError, PeerViolation) as error:
            log.warning("AlterPartition failed error=%s", error)
            self._unsent = {**items, **self._unsent}
            return False
        if response.error_code != ErrorCode.NONE:
            error_name = ErrorCode.of(response.error_code).name
            log.warning("AlterPartition refused error=%s broker_epoch=%d", error_name, request.broker_epoch)
            self._unsent = {**items, **self._unsent}
            return False
        answers = {
            (topic.topic_id, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        again = {
            key: item
            for key, item in items.items()
            if (answer := answers.get(key)) is None or self._take(item, answer)
        }
        self._unsent = {**again, **self._unsent}
        return not again

    def _request(self, items: dict[PartitionKey, _Item]) -> AlterPartitionRequest:
        topics: dict[bytes, AlterPartitionRequest.TopicData] = {}
        for (topic_id, partition), (_, proposal) in items.items():
            topic = topics.setdefault(topic_id, AlterPartitionRequest.TopicData(topic_id=topic_id))
            topic.partitions.append(
                AlterPartitionRequest.PartitionData(
                    partition_index=partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        AlterPartitionRequest.BrokerState(broker_id=broker_id, broker_epoch=epoch)
                        for broker_id, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
                    ],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _take(self, item: _Item, answer: AlterPartitionResponse.PartitionData) -> bool:
        """Pass the answer to the partition and return whether to send the proposal again."""
        partition, proposal = item
        replica = partition.replica
        if answer.error_code == ErrorCode.NONE:
            if not partition.accepted(proposal, answer.isr, answer.leader_epoch, answer.partition_epoch):
                self.stats.failed += 1
                return False
            if proposal.joins is not None:
                self.stats.expands += 1
            else:
                self.stats.shrinks += 1
            log.info(
                "in-sync replicas altered topic=%s partition=%d isr=%s partition_epoch=%d",
                replica.topic,
                replica.partition,
                answer.isr,
                answer.partition_epoch,
            )
            return False
        self.stats.failed += 1
        error = ErrorCode.of(answer.error_code)
        log.info(
            "in-sync replicas not altered topic=%s partition=%d proposed=%s error=%s",
            replica.topic,
            replica.partition,
            list(proposal.isr),
            error.name,
        )
        return partition.refused(proposal, error)
