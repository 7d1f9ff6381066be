"""An idempotent producer with acks=all that repeats each batch until it is acknowledged."""

from __future__ import annotations

from random import Random
from typing import Final

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from penstock.protocol.records import Record, encode_batch
from penstock.testing.simulator.clients.client import TRANSACTION, Client, ClientSettings, Gone, NoAnswer
from penstock.testing.simulator.history import Partition

TIMEOUT_MS: Final = 1_500
FORMER_LEADER_S: Final = 10.0
"""How long a former leader may still believe that it leads."""

GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Producer(Client):
    """A producer that writes batches to partitions, one at a time."""

    def __init__(
        self, settings: ClientSettings, name: str, rng: Random, partitions: list[Partition], pause_s: float
    ) -> None:
        super().__init__(settings, name, rng)
        self.partitions = partitions
        self.pause_s = pause_s
        self.transactional_id: str | None = None
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequences: dict[Partition, int] = {}
        self.batches = 0
        self._written = 0

    async def run(self) -> None:
        await self.initialise()
        while not self.stopping:
            await self.write(self.rng.choice(self.partitions), self.new_values())
            await self.pause(self.pause_s)

    def new_values(self) -> list[bytes]:
        values = [
            b"%s-%d" % (self.name.encode(), self._written + at) for at in range(self.rng.choice((1, 1, 3)))
        ]
        self._written += len(values)
        return values

    async def initialise(self) -> None:
        """Obtain a producer id and epoch."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=3_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        refresh = False
        while True:
            try:
                if self.transactional_id is None:
                    address = self.rng.choice(list(self.settings.bootstrap.values()))
                else:
                    address = await self.coordinator(TRANSACTION, self.transactional_id, refresh=refresh)
                response = await self.ask(address, request, InitProducerIdResponse)
            except NoAnswer:
                refresh = True
                await self.pause()
                continue
            if not response.error_code:
                break
            if ErrorCode.of(response.error_code) not in RETRIABLE:
                raise self.unexpected("InitProducerId", response.error_code)
            refresh = True
            await self.pause()
        self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
        self.sequences.clear()

    async def write(self, partition: Partition, values: list[bytes]) -> ErrorCode:
        """Repeat the batch until it is acknowledged, or return the error that refuses it for good.

        Returns UNKNOWN_TOPIC_ID if the topic was deleted meanwhile.
        """
        self.history.sending(partition, values)
        sequence = self.sequences.get(partition, 0)
        gaps_from_s: dict[int, float] = {}
        refresh = False
        while True:
            try:
                code, offset = await self._send(partition, values, sequence, refresh=refresh)
            except NoAnswer:
                refresh = True
                await self.pause()
                continue
            except Gone:
                return ErrorCode.UNKNOWN_TOPIC_ID
            if code in GONE and self.is_doomed(partition):
                return ErrorCode.UNKNOWN_TOPIC_ID
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self.sequences[partition] = sequence + len(values)
                self.batches += 1
                self.history.acknowledged(partition, offset if code is ErrorCode.NONE else -1, values)
                return ErrorCode.NONE
            if code not in RETRIABLE and not self._may_not_know_its_successor(partition, code, gaps_from_s):
                return self.refused(partition, code)
            refresh = True
            await self.pause()

    def _may_not_know_its_successor(
        self, partition: Partition, code: ErrorCode, gaps_from_s: dict[int, float]
    ) -> bool:
        """Whether a sequence gap may come from a former leader that has not noticed its successor yet.

        A former leader lacks the batches that its successor took and reports a gap, as Apache Kafka's does. A
        client that learns the successor's epoch continues there, but the same epoch may not report gaps for
        long. ``gaps_from_s`` holds, by leader epoch, the time of the first gap.
        """
        if code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return False
        epoch = self.leaders[partition].epoch
        return self.loop.now_s - gaps_from_s.setdefault(epoch, self.loop.now_s) < FORMER_LEADER_S

    def refused(self, partition: Partition, code: ErrorCode) -> ErrorCode:
        """Raise a violation: an idempotent producer that repeats everything never gets such errors."""
        raise self.unexpected(f"a batch for {partition}", code)

    async def _send(
        self, partition: Partition, values: list[bytes], sequence: int, *, refresh: bool
    ) -> tuple[ErrorCode, int]:
        leader = await self.leader(partition, refresh=refresh)
        batch = encode_batch(
            [Record(0, 1_700_000_000_000, None, value) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            transactional=self.transactional_id is not None,
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=partition.topic,
                    topic_id=partition.topic_id,
                    partition_data=[
                        ProduceRequest.PartitionProduceData(index=partition.number, records=batch)
                    ],
                )
            ],
        )
        response = await self.ask(leader.address, request, ProduceResponse)
        answer = response.responses[0].partition_responses[0]
        return ErrorCode.of(answer.error_code), answer.base_offset
