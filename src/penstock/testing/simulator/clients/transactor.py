"""A transactional producer (KIP-890): several batches that shall count together, or not at all."""

from __future__ import annotations

from random import Random
from typing import Final

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import EndTxnRequest, EndTxnResponse
from penstock.testing.simulator.clients.client import TRANSACTION, ClientSettings, NoAnswer
from penstock.testing.simulator.clients.producer import RETRIABLE, Producer
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
"""A timeout has aborted the transaction, most likely: begin anew."""


class Transactor(Producer):
    """One transaction after the other under a transactional id, which others may use as well."""

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
        self._ready = False

    async def run(self) -> None:
        while not self.stopping:
            if not self._ready:
                await self.initialise()
                self._ready = True
            transaction = Transaction(f"{self.name}/{self.transactions}")
            self.transactions += 1
            self.history.transactions.append(transaction)
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
            transaction.decision = Decision.LOST
            for value in values:
                transaction.doubtful[value] = partition
            self._ready = False
            return
        await self._end(transaction, committed=self.rng.random() < 0.75)

    def refused(self, partition: Partition, code: ErrorCode) -> ErrorCode:
        if code in FENCED:
            return code
        return super().refused(partition, code)

    async def _end(self, transaction: Transaction, *, committed: bool) -> None:
        """Commit or abort, repeated until it is known."""
        assert self.transactional_id is not None
        transaction.decision = Decision.COMMITTING if committed else Decision.ABORTING
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        anew = False
        while True:
            try:
                address = await self.coordinator(TRANSACTION, self.transactional_id, anew=anew)
                response = await self.ask(address, request, EndTxnResponse)
            except NoAnswer:
                anew = True
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
            anew = code is not ErrorCode.CONCURRENT_TRANSACTIONS
            await self.pause()
