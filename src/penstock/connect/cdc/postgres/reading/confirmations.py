"""Finds the position that may be confirmed to the server: all records before it are in their topics.

The worker reports records in any order, and from other threads. A transaction is done once all its records
were reported, and the position after a transaction is safe once it and all before it are done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from penstock.connect.cdc.batches import Batch
from penstock.connect.data.records import SourceRecord


class _Section:
    """The records between two ends of transactions, and the position that is safe once they are done."""

    __slots__ = ("end", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self.end: int | None = None


class Confirmations:
    """Follows the records from the task to their topics."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sections: deque[_Section] = deque([_Section()])
        self._section_of: dict[int, _Section] = {}
        self._safe = 0
        self._stored = 0
        self._is_stored = True

    def emitted(self, batch: Batch) -> None:
        """Note the records of a batch before the worker gets them."""
        with self._lock:
            begin = 0
            for count, end in batch.ends:
                self._add(batch.records[begin:count])
                self._sections[-1].end = end
                self._sections.append(_Section())
                begin = count
            self._add(batch.records[begin:])
            self._advance()

    def reported(self, record: SourceRecord) -> None:
        """Note that a record is in its topic, or was left out."""
        with self._lock:
            section = self._section_of.pop(id(record), None)
            if section is not None:
                section.pending -= 1
                self._is_stored = False
                if not section.pending and section is self._sections[0]:
                    self._advance()

    def stored(self) -> None:
        """Note that the worker stored the offsets of the records that were reported."""
        with self._lock:
            self._stored, self._is_stored = self._safe, True

    @property
    def position(self) -> int:
        """The position to confirm; 0 if there is none yet."""
        with self._lock:
            if self._is_stored:  # what came since has no records, so it needs no offset
                self._stored = self._safe
            return self._stored

    def _add(self, records: Sequence[SourceRecord]) -> None:
        section = self._sections[-1]
        section.pending += len(records)
        self._section_of.update(dict.fromkeys(map(id, records), section))

    def _advance(self) -> None:
        while not self._sections[0].pending and self._sections[0].end is not None:
            self._safe = max(self._safe, self._sections.popleft().end or 0)
