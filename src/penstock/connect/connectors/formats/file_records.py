"""The records of one complete file as source records; the offset of the last one says that it is done."""

from __future__ import annotations

from collections.abc import Callable

from penstock.connect.connectors.formats.bad_records import BadRecords
from penstock.connect.connectors.formats.items import Item, RecordReader
from penstock.connect.data.records import Header, Offset, Partition, SourceRecord
from penstock.connect.data.schema import INT64, STRING
from penstock.connect.errors import ConnectError, DataError

MakeOffset = Callable[[int, bool], Offset]
"""Makes the offset behind a position; the flag says whether all of the file is read."""


class RecordMaker:
    """Makes source records of what readers give, for one task."""

    def __init__(self, topic: str, bad: BadRecords, *, has_headers: bool) -> None:
        self._topic = topic
        self._bad = bad
        self._has_headers = has_headers

    def record(self, file: str, item: Item, partition: Partition, offset: Offset) -> SourceRecord | None:
        """Make the record of an item; None if it is a bad one that is only logged.

        Raises:
            ConnectError: it is a bad one, and no error is tolerated.
        """
        if item.error is not None:
            return self._bad.record(file, item, partition, offset)
        headers: tuple[Header, ...] = ()
        if self._has_headers:
            name = file.rpartition("/")[2]
            headers = (
                Header("file.path", file, STRING),
                Header("file.name", name, STRING),
                Header("file.offset", item.position, INT64),
            )
        return SourceRecord(
            topic=self._topic,
            value=item.value,
            value_schema=item.schema,
            headers=headers,
            source_partition=partition,
            source_offset=offset,
        )


class FileRecords:
    """Reads one complete file."""

    def __init__(
        self,
        file: str,
        open_reader: Callable[[int], RecordReader],
        partition: Partition,
        make_offset: MakeOffset,
        maker: RecordMaker,
        *,
        position: int = 0,
    ) -> None:
        """`open_reader` opens the file at a position."""
        self.file = file
        self.partition = partition
        self.position = position
        """The position behind the last record that was returned."""
        self.is_done = False
        self.is_damaged = False
        """Whether the rest of the file cannot be read."""
        self._open_reader = open_reader
        self._make_offset = make_offset
        self._maker = maker
        self._reader: RecordReader | None = None
        self._held: Item | None = None
        """The last item that was read: whether more follow decides about its offset."""
        self._failure: ConnectError | None = None
        self._is_careful = False
        """Whether records are read one by one, because one of the next cannot be read."""

    def next(self, limit: int) -> list[SourceRecord]:
        """Return the next records; none does not mean that the file is done.

        Raises:
            ConnectError: a record is bad, and no error is tolerated.
            OSError: the file cannot be read now.
        """
        if self._failure is not None:
            raise self._failure
        items = self._read(limit)
        if self._held is not None:
            items.insert(0, self._held)
        self._held = None if self.is_done or not items else items.pop()
        records: list[SourceRecord] = []
        for number, item in enumerate(items, start=1):
            offset = self._make_offset(item.position, self.is_done and number == len(items))
            try:
                made = self._maker.record(self.file, item, self.partition, offset)
            except ConnectError as error:
                if not records:
                    raise
                self._failure = error  # the records before it first
                self.is_done = False
                break
            if made is not None:
                records.append(made)
            self.position = item.position
        return records

    def reopen(self) -> None:
        """Open the file again for the next records, behind the last one that was returned."""
        self._reader = self._held = None

    def _read(self, limit: int) -> list[Item]:
        end = self.position if self._held is None else self._held.position
        try:
            if self._reader is None:
                self._reader = self._open_reader(self.position)
            items = self._reader.read(1 if self._is_careful else limit, is_complete=True)
        except DataError as error:
            if not self._is_careful:
                self._is_careful = True  # the reader may have read good records before the damage
                self.reopen()
                return self._read(limit)
            self.is_done = self.is_damaged = True
            return [Item(end, None, None, error)]
        self.is_done = not items
        return items
