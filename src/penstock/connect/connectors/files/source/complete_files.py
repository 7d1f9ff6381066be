"""Reads files that do not grow, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.connect.connector.source import OffsetReader
from penstock.connect.connectors.files.source.cleanup import Cleanup
from penstock.connect.connectors.files.source.discovery import Discovery, FoundFile
from penstock.connect.connectors.files.source.identity import CompleteFile, is_unchanged
from penstock.connect.connectors.formats.compression import is_compressed
from penstock.connect.connectors.formats.file_records import FileRecords, RecordMaker
from penstock.connect.connectors.formats.items import RecordReader, Stream
from penstock.connect.connectors.formats.opening import format_of, open_records
from penstock.connect.connectors.formats.settings import GROWING, FormatSettings
from penstock.connect.data.records import Offset, SourceRecord

FILE: Final = "file"


class CompleteFiles:
    """The files of one task: those to read, the one that is read now, and those that were read."""

    def __init__(
        self,
        discovery: Discovery,
        settings: FormatSettings,
        maker: RecordMaker,
        offsets: OffsetReader,
        cleanup: Cleanup,
    ) -> None:
        self._discovery = discovery
        self._settings = settings
        self._maker = maker
        self._offsets = offsets
        self._cleanup = cleanup
        self._waiting: deque[FoundFile] = deque()
        self._current: tuple[FileRecords, CompleteFile] | None = None
        self._stream: Stream | None = None
        self._read: dict[str, Offset] = {}
        """The offsets of files that were read to their end; the worker may not have stored them yet."""

    def next(self, limit: int, search_due: Callable[[], bool]) -> list[SourceRecord]:
        """Return the next records of any file. Raises OSError."""
        for path in self._cleanup.run():
            self._read.pop(path, None)  # a file there is another one
        while True:
            current = self._current or self._open_next(search_due)
            if current is None:
                return []
            file, identity = current
            try:
                records = file.next(limit)
            except OSError:
                self._reopen(file, identity)
                raise
            self._cleanup.sent(file.file, len(records))
            if file.is_done:
                self._read[file.file] = identity.offset(file.position, True)
                self._cleanup.done(file.file, identity.status, is_damaged=file.is_damaged)
                self.close()
            if records:
                return records

    def close(self) -> None:
        """Close the file that is open."""
        if self._stream is not None:
            self._stream.close()
        self._stream = self._current = None

    def _open_next(self, search_due: Callable[[], bool]) -> tuple[FileRecords, CompleteFile] | None:
        """Open the next file that has records, and search for new files if there is none."""
        if not self._waiting and search_due():
            found = self._discovery.files()
            paths = {each.path for each in found}
            self._read = {path: offset for path, offset in self._read.items() if path in paths}
            self._waiting.extend(filter(self._is_due, found))
        while self._waiting:
            self._current = self._opened(self._waiting.popleft().path)
            if self._current is not None:
                return self._current
        return None

    def _is_due(self, found: FoundFile) -> bool:
        read = self._read.get(found.path)
        return (
            self._discovery.is_mine(found.path)
            and self._discovery.is_old_enough(found)
            and (read is None or not is_unchanged(found.status, read))
            and not self._cleanup.is_waiting(found.path)
        )

    def _opened(self, path: str) -> tuple[FileRecords, CompleteFile] | None:
        """Open a file at its stored position; None if it is gone or was read."""
        try:
            stream = self._open(path)
        except FileNotFoundError:
            return None
        identity = CompleteFile(stream)
        stored = self._read.get(path) or self._offsets.offset({FILE: path})
        start = identity.start(stored, may_grow=self._may_grow(path, stream))
        if start is None:
            self._read[path] = stored or {}
            self._cleanup.done(path, identity.status, is_damaged=False)
            self.close()
            return None

        def open_reader(position: int) -> RecordReader:
            stream = self._stream or self._open(path)
            identity.stream = stream
            stream.seek(0)
            return open_records(stream, path, position, self._settings)

        file = FileRecords(path, open_reader, {FILE: path}, identity.offset, self._maker, position=start)
        return file, identity

    def _open(self, path: str) -> Stream:
        self._stream = Path(path).open("rb")  # noqa: SIM115  # close() closes it
        return self._stream

    def _reopen(self, file: FileRecords, identity: CompleteFile) -> None:
        """Let the next call open the current file again, behind the last record that was returned."""
        self.close()
        file.reopen()
        self._current = file, identity

    def _may_grow(self, path: str, stream: Stream) -> bool:
        """Whether lines that are added to a file that was read are read too.

        A file that would have been cleaned up is the same one only if this task has just read it.
        """
        is_text = format_of(path, self._settings.format)[0] in GROWING
        is_known = self._cleanup.keeps_files or path in self._read
        return is_text and is_known and not is_compressed(stream)
