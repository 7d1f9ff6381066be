"""Tracks transactions during a clean: which were aborted, and which markers are still needed.

The cleaner passes in the batches of a log in their order, and before them the aborted transactions from the
log's indexes. A marker must stay as long as a record of its transaction does; an abort marker that stays
keeps its entry in the new segment's transaction index.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from penstock.protocol.batch import BatchHeader
from penstock.protocol.kernels import kernel
from penstock.protocol.records import ControlRecordType, control_record_type, decode_batch
from penstock.storage.segments.transaction_index import AbortedTransaction, TransactionIndex

_MAX_OFFSET: Final = 2**63 - 1


class CleanedTransactions:
    """The transactions that one pass over a log has met.

    `index` receives the aborted transactions that are still needed; it is None while keys are only mapped.
    """

    def __init__(self) -> None:
        self.index: TransactionIndex | None = None
        self._to_come: list[tuple[int, AbortedTransaction]] = []  # a heap by first offset
        self._aborted: dict[int, AbortedTransaction] = {}  # by producer id; their marker is not read yet
        self._aborted_with_batches: set[int] = set()
        self.committed = kernel.ProducerIds()
        """Producers with batches of a transaction that was not aborted and whose marker is not read yet."""

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions of the part to be read next; duplicates are harmless."""
        for aborted in transactions:
            heappush(self._to_come, (aborted.first_offset, aborted))

    @property
    def committed_below(self) -> int:
        """An offset below which no batch of an aborted transaction follows."""
        if self._aborted:
            return 0
        return self._to_come[0][0] if self._to_come else _MAX_OFFSET

    def is_aborted(self, header: BatchHeader) -> bool:
        """Process a data batch. Returns whether it belongs to an aborted transaction and can be dropped."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted_with_batches.add(header.producer_id)
            return True
        self.committed.add(header.producer_id)
        return False

    def is_marker_needless(self, header: BatchHeader, data: memoryview) -> bool:
        """Process a control batch. Returns whether no record of its transaction was read before it.

        Raises MalformedRecords, OSError.
        """
        self._begin_up_to(header.last_offset)
        record = next(decode_batch(data), None)
        if record is None:  # emptied by an earlier clean
            return True
        kind = control_record_type(record.key)
        producer_id = header.producer_id
        if kind is ControlRecordType.ABORT:
            aborted = self._aborted.pop(producer_id, None)
            if aborted is None or producer_id not in self._aborted_with_batches:
                return True
            self._aborted_with_batches.discard(producer_id)
            if self.index is not None:
                self.index.append(aborted)
            return False
        if kind is ControlRecordType.COMMIT:
            has_batches = producer_id in self.committed
            self.committed.discard(producer_id)
            return not has_batches
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[0][0] <= offset:
            aborted = heappop(self._to_come)[1]
            self._aborted.setdefault(aborted.producer_id, aborted)
