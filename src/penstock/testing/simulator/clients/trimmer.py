"""An administrator that deletes records: it raises log start offsets and repeats requests until answered."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from penstock.testing.simulator.clients.client import Client, ClientSettings, Gone, NoAnswer
from penstock.testing.simulator.history import Partition, Violation

TIMEOUT_MS: Final = 1_500
TRIES: Final = 5

ASK_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors to retry; a new leader may not know yet that the offset is committed."""


class Trimmer(Client):
    """A client that deletes records.

    `state_of` returns the state of a partition whose replicas are all in sync, None for any other. If the
    state is the same before a request and after its answer, the deletion is final: no replica with a lower
    start offset could be elected. A replica that was out of sync meanwhile may bring records back, as in
    Kafka.
    """

    def __init__(
        self,
        settings: ClientSettings,
        name: str,
        rng: Random,
        partitions: list[Partition],
        state_of: Callable[[Partition], object],
    ) -> None:
        super().__init__(settings, name, rng)
        self.partitions = partitions
        self.deletions = 0
        self._state_of = state_of

    async def run(self) -> None:
        while not self.stopping:
            await self.pause(0.7)
            partition = self.rng.choice(self.partitions)
            known = self.history.of(partition)
            # Delete up to an acknowledged offset, which is committed.
            offsets = [offset for offset in known.acknowledged if offset >= known.asked_before]
            if offsets:
                await self._delete_before(partition, self.rng.choice(offsets) + self.rng.randint(0, 1))

    async def _delete_before(self, partition: Partition, offset: int) -> None:
        self.history.delete_before(partition, offset)
        for _ in range(TRIES):
            try:
                leader = await self.leader(partition, refresh=True)
                before = self._state_of(partition)
                response = await self.ask(
                    leader.address, self._request(partition, offset), DeleteRecordsResponse
                )
            except NoAnswer:
                await self.pause()
                continue
            except Gone:
                return
            answer = response.topics[0].partitions[0]
            code = ErrorCode.of(answer.error_code)
            if code is ErrorCode.NONE:
                self._deleted(partition, offset, answer.low_watermark)
                if before is not None and before == self._state_of(partition):
                    self.history.deleted_before(partition, offset)
                return
            if code not in ASK_AGAIN:
                raise self.unexpected(f"DeleteRecords {partition} {offset}", code)
            await self.pause()

    def _deleted(self, partition: Partition, offset: int, low_watermark: int) -> None:
        if low_watermark < offset:
            raise Violation(
                f"{partition}: records before {offset} are deleted, but it starts at {low_watermark}"
            )
        self.deletions += 1

    def _request(self, partition: Partition, offset: int) -> DeleteRecordsRequest:
        wanted = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition.number, offset=offset)
        return DeleteRecordsRequest(
            topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=partition.topic, partitions=[wanted])],
            timeout_ms=TIMEOUT_MS,
        )
