"""The task of the files source: complete files, or logs that grow."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.connect.connector.source import RecordMetadata, SourceTask
from penstock.connect.connectors.files.source import definition as keys
from penstock.connect.connectors.files.source.cleanup import Cleanup
from penstock.connect.connectors.files.source.complete_files import FILE, CompleteFiles
from penstock.connect.connectors.files.source.discovery import Discovery
from penstock.connect.connectors.files.source.growing_files import GrowingFile
from penstock.connect.connectors.files.source.rotation import logs_of
from penstock.connect.connectors.formats.bad_records import BadRecords
from penstock.connect.connectors.formats.file_records import RecordMaker
from penstock.connect.connectors.formats.settings import format_settings
from penstock.connect.data.records import SourceRecord
from penstock.connect.errors import ConnectError, RetriableError


class FilesSourceTask(SourceTask):
    """Reads the files of one task."""

    definition = keys.DEFINITION
    exactly_once = True

    def start(self, config: Mapping[str, Any]) -> None:
        self._settings = format_settings(config)
        self._discovery = Discovery(config)
        self._maker = RecordMaker(
            config[keys.TOPIC], BadRecords(config), has_headers=config[keys.METADATA] == keys.HEADERS
        )
        self._wait_s = config[keys.WAIT] / 1000
        self._rotation_wait_s = config[keys.ROTATION_WAIT] / 1000
        self._next_search_s = float("-inf")
        self._cleanup = Cleanup(config)
        self._complete: CompleteFiles | None = None
        self._logs: dict[str, GrowingFile] = {}
        self._failure: ConnectError | None = None
        if config[keys.MODE] == keys.COMPLETE:
            self._complete = CompleteFiles(
                self._discovery, self._settings, self._maker, self.context, self._cleanup
            )

    def poll(self) -> Sequence[SourceRecord]:
        try:
            if self._complete is not None:
                return self._complete.next(self._settings.batch_size, self._is_search_due)
            return self._new_records()
        except OSError as error:
            raise RetriableError(f"files cannot be read now: {error}") from error

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self._cleanup.stored(record.source_partition[FILE])

    def stop(self) -> None:
        # The worker stops a task that could not start, too.
        if (complete := getattr(self, "_complete", None)) is not None:
            complete.close()
        for log in getattr(self, "_logs", {}).values():
            log.close()

    def _is_search_due(self) -> bool:
        """Whether it is time to search for new files; the next search is due later."""
        now = time.monotonic()
        if now < self._next_search_s:
            return False
        self._next_search_s = now + self._wait_s
        return True

    def _new_records(self) -> list[SourceRecord]:
        """Return the next records of all logs; each gets its turn."""
        if self._failure is not None:
            raise self._failure
        if self._is_search_due():
            self._find_logs()
        records: list[SourceRecord] = []
        for path in list(self._logs):
            left = self._settings.batch_size - len(records)
            if not left:
                break
            log = self._logs.pop(path)
            self._logs[path] = log  # behind the others, so that the next call begins with them
            self._add(records, path, log, left)
            if self._failure is not None:
                break
        return records

    def _add(self, records: list[SourceRecord], path: str, log: GrowingFile, limit: int) -> None:
        """Add the next records of a log. The next call raises an error if there are records before it."""
        try:
            for item, offset in log.next(limit):
                made = self._maker.record(path, item, {FILE: path}, offset)
                if made is not None:
                    records.append(made)
        except OSError:
            if not records:
                raise
        except ConnectError as error:
            if not records:
                raise
            self._failure = error

    def _find_logs(self) -> None:
        """Add the logs that are new. Rotated files belong to the log whose name they have."""
        found = [each.path for each in self._discovery.files()]
        names = {*found, *self._logs}
        for path in found:
            bases = logs_of(path)
            if path in self._logs or not self._discovery.is_mine(path) or bases & names:
                continue
            if any(self.context.offset({FILE: base}) is not None for base in bases):
                continue  # its log is missing only for the moment between the two steps of a rotation
            self._logs[path] = GrowingFile(
                path,
                self.context.offset({FILE: path}),
                self._settings,
                rotation_wait_s=self._rotation_wait_s,
                earlier=[each for each in found if path in logs_of(each)],
            )
