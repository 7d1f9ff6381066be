"""Send the questions of partition leaders to transaction coordinators on other brokers (KIP-890).

Like Kafka's AddPartitionsToTxnManager, it sends a broker one AddPartitionsToTxn request at a time, with all
transactions that have accumulated for it. A request names each transactional id once. Further questions about
the same id are sent with the next request, whereas Kafka refuses the older of two questions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import NamedTuple, TypeAlias

from penstock.broker.coordination.broker_peers import BrokerPeers
from penstock.broker.peers import Peer, PeerError
from penstock.coordinators.transaction.metadata import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

__all__ = ["Question", "RemoteCoordinators"]

log = logging.getLogger(__name__)

TRANSACTIONS_PER_REQUEST = 1_000

Codes: TypeAlias = dict[TopicPartition, ErrorCode]


class Question(NamedTuple):
    """The question whether partitions may take part in a transaction. It adds them unless `verify_only`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Collection[TopicPartition]
    verify_only: bool

    def all_answered(self, code: ErrorCode) -> Codes:
        return dict.fromkeys(self.partitions, code)


class RemoteCoordinators:
    """The pending questions to other brokers, in one queue for each broker."""

    def __init__(self, peers: BrokerPeers, timeout_ms: int) -> None:
        self._peers = peers
        self._timeout_ms = timeout_ms
        self._queues: dict[int, _Queue] = {}

    def ask(self, broker_id: int, question: Question) -> asyncio.Future[Codes]:
        """Queue the question. The result is the coordinator's codes; NETWORK_EXCEPTION without an answer."""
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = _Queue(partial(self._peers.of, broker_id), self._timeout_ms)
        return queue.ask(question)

    def close(self) -> None:
        """Stop sending, and answer all pending questions with NETWORK_EXCEPTION."""
        for queue in self._queues.values():
            queue.close()
        self._peers.close()


class _Asked(NamedTuple):
    question: Question
    answer: asyncio.Future[Codes]

    def resolve(self, codes: Codes) -> None:
        if not self.answer.done():
            self.answer.set_result(codes)


class _Queue:
    """The questions for one broker."""

    def __init__(self, peer: Callable[[], Peer | None], timeout_ms: int) -> None:
        self._peer = peer
        self._timeout_ms = timeout_ms
        self._waiting: list[_Asked] = []
        self._under_way: list[_Asked] = []
        self._sender: asyncio.Task[None] | None = None

    def ask(self, question: Question) -> asyncio.Future[Codes]:
        loop = asyncio.get_running_loop()
        asked = _Asked(question, loop.create_future())
        self._waiting.append(asked)
        if self._sender is None:
            # it starts in the next turn of the loop, with all questions that this turn adds
            self._sender = loop.create_task(self._send_all())
        return asked.answer

    def close(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
        for asked in (*self._under_way, *self._waiting):
            asked.resolve(asked.question.all_answered(ErrorCode.NETWORK_EXCEPTION))
        self._waiting.clear()

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                self._under_way = self._take()
                await self._send(self._under_way)
                self._under_way = []
        finally:
            self._sender = None

    def _take(self) -> list[_Asked]:
        """Remove the questions of the next request from the queue and return them."""
        batch: dict[str, _Asked] = {}
        left = []
        for asked in self._waiting:
            transactional_id = asked.question.transactional_id
            if transactional_id in batch or len(batch) == TRANSACTIONS_PER_REQUEST:
                left.append(asked)
            else:
                batch[transactional_id] = asked
        self._waiting = left
        return list(batch.values())

    async def _send(self, batch: list[_Asked]) -> None:
        error, failure = ErrorCode.NETWORK_EXCEPTION, "the broker is not registered or is fenced"
        answers: dict[str, Codes] = {}
        peer = self._peer()
        if peer is not None:
            request = AddPartitionsToTxnRequest(
                transactions=[_transaction(asked.question) for asked in batch]
            )
            try:
                response = await peer.call(request, AddPartitionsToTxnResponse, self._timeout_ms)
            except PeerError as unanswered:
                failure = str(unanswered)
            else:
                error, failure = _refusal(response), f"error {response.error_code}"
                answers = _answers(response)
        if error is not ErrorCode.NONE:
            log.info("transactions not verified count=%d reason=%s", len(batch), failure)
        for asked in batch:
            codes = asked.question.all_answered(error or ErrorCode.UNKNOWN_SERVER_ERROR)
            codes.update(answers.get(asked.question.transactional_id, {}))
            asked.resolve(codes)


def _transaction(question: Question) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=question.verify_only,
        topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=partitions)
            for name, partitions in _by_topic(question.partitions).items()
        ],
    )


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


def _refusal(response: AddPartitionsToTxnResponse) -> ErrorCode:
    """The error of the request as a whole.

    If this broker is not authorized to ask, the client gets INVALID_TXN_STATE, as in Kafka: the missing
    authorization is not the client's.
    """
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.of(response.error_code)


def _answers(response: AddPartitionsToTxnResponse) -> dict[str, Codes]:
    return {
        result.transactional_id: {
            (topic.name, partition.partition_index): ErrorCode.of(partition.partition_error_code)
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
