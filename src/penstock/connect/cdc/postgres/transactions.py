"""Transaction metadata (``provide.transaction.metadata``) under PostgreSQL's ids. Pure.

An id is ``<xid>:<LSN>``. As in Debezium, the LSN is that of the event at hand, so the events of a transaction
have only the transaction's xid in common.
"""

from __future__ import annotations

from typing import Any

from penstock.connect.cdc.transactions import TransactionCounts
from penstock.connect.data.records import SourceRecord


class TransactionMetadata(TransactionCounts):
    """Counts the events of the transaction at hand, in total and per table."""

    _xid: int | None = None

    def begin(self, xid: int, lsn: int, committed_us: int) -> SourceRecord:
        """Start to count; gives the record BEGIN."""
        self._xid = xid
        return self.begin_transaction(f"{xid}:{lsn}", committed_us, str(xid))

    def count(self, collection: str, lsn: int) -> list[Any]:
        """Count an event of a table; gives its id and its places in transaction and table."""
        return self.count_event(collection, f"{self._xid}:{lsn}")

    def end(self, lsn: int, committed_us: int) -> SourceRecord:
        """The record END, with the counts."""
        return self.end_transaction(f"{self._xid}:{lsn}", committed_us)
