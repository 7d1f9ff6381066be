"""The task of the objects source: reads one object after the other.

Each object is a partition of the source, and its offset has the tag of its content. An object that was
written again is read again from its beginning.
"""

from __future__ import annotations

import logging
import re
import time
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.connect.connector.source import SourceTask
from penstock.connect.connectors.formats.bad_records import BadRecords
from penstock.connect.connectors.formats.file_records import FileRecords, RecordMaker
from penstock.connect.connectors.formats.items import RecordReader
from penstock.connect.connectors.formats.opening import open_records
from penstock.connect.connectors.formats.settings import format_settings
from penstock.connect.connectors.objects import definition as keys
from penstock.connect.data.records import Offset, Partition, SourceRecord
from penstock.connect.errors import ConnectError, RetriableError

if TYPE_CHECKING:
    from penstock.connect.connectors.objects.stores import StoredObject

log = logging.getLogger(__name__)

STORE: Final = "store"
OBJECT: Final = "object"
POSITION: Final = "position"
TAG: Final = "tag"
DONE: Final = "done"


class ObjectsSourceTask(SourceTask):
    """Reads the objects of one task."""

    definition = keys.DEFINITION
    exactly_once = True

    def start(self, config: Mapping[str, Any]) -> None:
        from penstock.connect.connectors.objects.stores import Store  # needs a package that may be missing

        self._store = Store(config)
        self._settings = format_settings(config)
        has_headers = config[keys.METADATA] == keys.HEADERS
        self._maker = RecordMaker(config[keys.TOPIC], BadRecords(config), has_headers=has_headers)
        self._pattern = re.compile(config[keys.FILE_PATTERN])
        self._after: str = config[keys.START_KEY]
        self._is_by_time = config[keys.SORT] == keys.BY_TIME
        self._task, self._tasks = config[keys.TASK_INDEX], config[keys.TASK_COUNT]
        self._interval_s = config[keys.INTERVAL] / 1000
        self._next_list_s = float("-inf")
        self._waiting: deque[tuple[StoredObject, int]] = deque()
        """Objects to read, and the positions where to begin."""
        self._current: FileRecords | None = None
        self._current_tag = ""
        self._read: dict[str, str] = {}
        """The tags of objects that were read to their end, by name."""

    def poll(self) -> Sequence[SourceRecord]:
        try:
            return self._next()
        except PermissionError as error:
            raise ConnectError(f"the store refuses to be read: {error}") from error
        except OSError as error:
            raise RetriableError(f"the store cannot be read now: {error}") from error

    def _next(self) -> list[SourceRecord]:
        if self._current is None and not self._waiting:
            self._list()
        while True:
            current = self._current or self._open_next()
            if current is None:
                return []
            try:
                records = current.next(self._settings.batch_size)
            except FileNotFoundError as error:
                log.warning("an object is gone or has changed since it was listed error=%s", error)
                self._current = None  # the next list shows what is there now
                continue
            except OSError:
                current.reopen()
                raise
            if current.is_done:
                self._read[current.file] = self._current_tag
                self._current = None
            if records:
                return records

    def _list(self) -> None:
        """Find the objects that are new or have changed, unless this was done a moment ago."""
        now = time.monotonic()
        if now < self._next_list_s:
            return
        found = self._store.objects(self._after)
        self._next_list_s = now + self._interval_s
        names = {each.name for each in found}
        self._read = {name: tag for name, tag in self._read.items() if name in names}
        due = [each for each in found if self._is_mine(each.name) and self._read.get(each.name) != each.tag]
        due.sort(key=lambda each: (each.modified, each.name) if self._is_by_time else each.name)
        stored = self.context.offsets([self._partition(each) for each in due])
        for each, offset in zip(due, stored, strict=True):
            is_same = offset is not None and offset.get(TAG) == each.tag
            if offset is not None and is_same and offset.get(DONE):
                self._read[each.name] = each.tag
            else:
                position = offset.get(POSITION) if offset is not None and is_same else 0
                self._waiting.append((each, position if type(position) is int else 0))

    def _is_mine(self, name: str) -> bool:
        if zlib.crc32(name.encode()) % self._tasks != self._task:
            return False
        return self._pattern.fullmatch(name.rpartition("/")[2]) is not None

    def _open_next(self) -> FileRecords | None:
        if not self._waiting:
            return None
        found, position = self._waiting.popleft()

        def open_reader(position: int) -> RecordReader:
            return open_records(self._store.open(found), found.name, position, self._settings)

        def offset(position: int, is_done: bool) -> Offset:
            made = {POSITION: position, TAG: found.tag}
            return made | {DONE: True} if is_done else made

        partition = self._partition(found)
        self._current_tag = found.tag
        self._current = FileRecords(
            found.name, open_reader, partition, offset, self._maker, position=position
        )
        return self._current

    def _partition(self, found: StoredObject) -> Partition:
        return {STORE: self._store.url, OBJECT: found.name}
