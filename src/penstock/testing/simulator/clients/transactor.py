"""A transactional producer (KIP-890): several batches that take effect together, or not at all."""

from __future__ import annotations

from random import Random
from typing import Final

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    EndTxnRequest,
    EndTxnResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from penstock.testing.simulator.clients.client import GROUP, TRANSACTION, ClientSettings, NoAnswer
from penstock.testing.simulator.clients.producer import GONE, RETRIABLE, Producer
from penstock.testing.simulator.history import Decision, Partition, Transaction

FENCED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""A timeout has most likely aborted the transaction; begin a new one."""


class Transactor(Producer):
    """A producer of one transaction after the other; other producers may share its transactional id."""

    def __init__(
        self,
        settings: ClientSettings,
        name: str,
        rng: Random,
        partitions: list[Partition],
        pause_s: float,
        transactional_id: str,
    ) -> None:
        super().__init__(settings, name, rng, partitions, pause_s)
        self.transactional_id = transactional_id
        self.transactions = 0
        self.own: list[Transaction] = []
        self._ready = False

    async def run(self) -> None:
        while not self.stopping:
            if not self._ready:
                await self.initialise()
                self._ready = True
            transaction = Transaction(f"{self.name}/{self.transactions}")
            self.transactions += 1
            self.history.transactions.append(transaction)
            self.own.append(transaction)
            await self._run_one(transaction)
            await self.pause(self.pause_s)

    async def _run_one(self, transaction: Transaction) -> None:
        for _ in range(self.rng.choice((1, 2, 4))):
            values, partition = self.new_values(), self.rng.choice(self.partitions)
            for value in values:
                self.history.transaction_of[value] = transaction
            code = await self.write(partition, values)
            if code is ErrorCode.NONE:
                transaction.values.update(dict.fromkeys(values, partition))
                continue
            for value in values:
                transaction.doubtful[value] = partition
            if code in GONE:
                continue
            transaction.decision = Decision.LOST
            self._ready = False
            return
        if self.rng.random() < 0.5:
            transaction.offset = self.transactions
            code = await self._commit_offset(self.transactions)
            if code is not ErrorCode.NONE:
                transaction.decision = Decision.LOST
                self._ready = False
                return
        await self._end(transaction, committed=self.rng.random() < 0.75)

    def refused(self, partition: Partition, code: ErrorCode) -> ErrorCode:
        if code in FENCED:
            return code
        return super().refused(partition, code)

    @property
    def group_id(self) -> str:
        """The group for which its transactions commit offsets."""
        return f"offsets-of-{self.transactional_id}"

    async def _commit_offset(self, offset: int) -> ErrorCode:
        """Commit a group's offset within the transaction; repeat until it is accepted or refused for good."""
        assert self.transactional_id is not None
        partition = self.partitions[0]
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            generation_id=-1,
            member_id="",
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=partition.topic,
                    partitions=[
                        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                            partition_index=partition.number, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        refresh = False
        while True:
            try:
                address = await self.coordinator(GROUP, self.group_id, refresh=refresh)
                response = await self.ask(address, request, TxnOffsetCommitResponse)
            except NoAnswer:
                refresh = True
                await self.pause()
                continue
            code = ErrorCode.of(response.topics[0].partitions[0].error_code)
            if code is ErrorCode.NONE or code in FENCED:
                return code
            if code not in RETRIABLE:
                raise self.unexpected("TxnOffsetCommit", code)
            refresh = True
            await self.pause()

    async def last_offset(self) -> int:
        """The group's offset, 0 for none, once no transaction with offsets of the group is open."""
        partition = self.partitions[0]
        refresh = True
        while True:
            try:
                address = await self.coordinator(GROUP, self.group_id, refresh=refresh)
                response = await self.ask(address, self._fetch_request(partition), OffsetFetchResponse)
            except NoAnswer:
                refresh = True
                await self.pause()
                continue
            group = response.groups[0]
            found = group.topics[0].partitions[0] if group.topics else None
            if not group.error_code and found is not None and not found.error_code:
                return max(found.committed_offset, 0)
            await self.pause()

    def _fetch_request(self, partition: Partition) -> OffsetFetchRequest:
        return OffsetFetchRequest(
            groups=[
                OffsetFetchRequest.OffsetFetchRequestGroup(
                    group_id=self.group_id,
                    topics=[
                        OffsetFetchRequest.OffsetFetchRequestTopics(
                            name=partition.topic,
                            topic_id=partition.topic_id,
                            partition_indexes=[partition.number],
                        )
                    ],
                )
            ],
            require_stable=True,
        )

    async def _end(self, transaction: Transaction, *, committed: bool) -> None:
        """Commit or abort the transaction; repeat until the outcome is known."""
        assert self.transactional_id is not None
        transaction.decision = Decision.COMMITTING if committed else Decision.ABORTING
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        refresh = False
        while True:
            try:
                address = await self.coordinator(TRANSACTION, self.transactional_id, refresh=refresh)
                response = await self.ask(address, request, EndTxnResponse)
            except NoAnswer:
                refresh = True
                await self.pause()
                continue
            code = ErrorCode.of(response.error_code)
            if code is ErrorCode.NONE:
                transaction.decision = Decision.COMMITTED if committed else Decision.ABORTED
                self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
                self.sequences.clear()
                return
            if code in FENCED:
                self._ready = False
                return
            if code not in RETRIABLE:
                raise self.unexpected("EndTxn", code)
            refresh = code is not ErrorCode.CONCURRENT_TRANSACTIONS
            await self.pause()
