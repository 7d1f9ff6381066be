"""Append to the topic as its only writer.

A former leader that does not know yet that it was replaced must not write. So every writer uses the same
transactional id. Initializing it raises the epoch of the producer id, and once the new writer has appended a
record, the leader of the partition refuses records with an older epoch. The records belong to no transaction:
one request writes all or none of them, and readers at any isolation level see them at once. Only records that
exceed one batch, such as the tombstones of ten thousand versions, are written in several batches, in order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.frames import RecordBytes
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import (
    ClientError,
    DeliveryFailed,
    ProtocolViolation,
    RecordTooLarge,
    ServerError,
    ServerUnreachable,
    error_from,
)
from penstock.client.producing.delivery import ProducerIdentity
from penstock.client.producing.producer import ALL_REPLICAS
from penstock.client.producing.transactor import Transactor
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ProduceRequest, ProduceResponse
from penstock.protocol.records import Record as LogRecord
from penstock.protocol.records import encode_batch
from penstock.registry.subjects import Record

# No transaction is ever begun, but brokers require a timeout for one.
_TRANSACTION_TIMEOUT_MS: Final = 60_000
# Less than the default maximum of a topic (max.message.bytes).
_BATCH_BYTES_MAX: Final = 1 << 19
_RECORD_OVERHEAD_BYTES: Final = 20
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


def batches(records: Sequence[Record], bytes_max: int = _BATCH_BYTES_MAX) -> Iterator[Sequence[Record]]:
    """Split records, in order, into batches of at most ``bytes_max``; a larger record forms a batch alone."""
    begin = size = 0
    for index, record in enumerate(records):
        bytes_more = len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD_BYTES
        if index > begin and size + bytes_more > bytes_max:
            yield records[begin:index]
            begin, size = index, 0
        size += bytes_more
    yield records[begin:]


class Fenced(ClientError):
    """Another writer has claimed the topic; nothing was written."""


class Writer:
    """A writer that one thread uses at a time.

    Call `claim` before the first `append`, and again after a failed one.
    """

    def __init__(self, cluster: Cluster, topic: str, transactional_id: str) -> None:
        self._cluster = cluster
        self._tp = TopicPartition(topic, 0)
        self._transactor = Transactor(cluster, transactional_id, _TRANSACTION_TIMEOUT_MS)
        self._identity: ProducerIdentity | None = None
        self._sequence = 0

    def claim(self) -> None:
        """Claim the topic. Raises ClientError.

        Once this writer has appended, pending writes of others and of its own earlier attempts are refused.
        """
        self._identity = None
        self._identity = self._transactor.begin().identity
        self._sequence = 0

    def append(self, records: Sequence[Record]) -> int:
        """Write the records with acks=all, in as few batches as possible, and return the last one's offset.

        Raises Fenced and RecordTooLarge; then neither that batch nor the ones after it were written. After
        any other ClientError they may be written, now or later, until the next claim.
        """
        return [self._append(batch) for batch in batches(records)][-1]

    def _append(self, records: Sequence[Record]) -> int:
        assert self._identity is not None, "not claimed"
        now_ms = time.time_ns() // 1_000_000
        batch = encode_batch(
            [LogRecord(0, now_ms, record.key, record.value) for record in records],
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            base_sequence=self._sequence,
        )
        base_offset = self._cluster.retry(lambda: self._attempt(batch))
        self._sequence = (self._sequence + len(records)) & 0x7FFFFFFF
        return base_offset + len(records) - 1

    def _attempt(self, batch: bytes) -> int:
        [node_id] = self._cluster.leaders([self._tp])
        try:
            response = self._cluster.connection(node_id).call(self._request(batch), ProduceResponse)
        except ServerUnreachable:
            self._cluster.disconnect(node_id)
            self._cluster.forget([self._tp.topic])
            raise
        answers = [answer for topic in response.responses for answer in topic.partition_responses]
        if len(answers) != 1:
            raise ProtocolViolation(f"broker {node_id} answered for {len(answers)} partitions, expected 1")
        [answer] = answers
        where = f"produce to {self._tp} at broker {node_id}"
        code = answer.error_code
        if code in _FENCED:
            raise Fenced(f"{where}: a newer leader has claimed the topic")
        if code in _TOO_LARGE:
            raise RecordTooLarge(
                f"{where}: {len(batch)} bytes are more than the topic's max.message.bytes allows"
            )
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            raise DeliveryFailed(f"{where}: written, but the offset is no longer known")
        if code:
            self._cluster.forget([self._tp.topic])
            raise error_from(code, where, answer.error_message)
        return answer.base_offset

    def _request(self, batch: bytes) -> ProduceRequest:
        topic = self._cluster.metadata.topics.get(self._tp.topic)
        if topic is None:
            raise ServerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic '{self._tp.topic}' does not exist"
            )
        data = ProduceRequest.PartitionProduceData(index=self._tp.partition, records=RecordBytes(batch))
        return ProduceRequest(
            transactional_id=None,
            acks=ALL_REPLICAS,
            timeout_ms=self._cluster.config.request_timeout_ms,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=self._tp.topic, topic_id=topic.topic_id, partition_data=[data]
                )
            ],
        )
