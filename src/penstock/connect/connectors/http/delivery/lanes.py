"""Splits a batch into lanes: records of one key stay in one lane, in order, and lanes run in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import RetriableError


class Lanes:
    """Threads that each send one part of a batch."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._threads = ThreadPoolExecutor(count, "lane") if count > 1 else None

    def run(self, records: Sequence[SinkRecord], send: Callable[[Sequence[SinkRecord]], None]) -> None:
        """Send all records and return once every lane has ended.

        Raises an error of a lane, and one that cannot be retried before others.
        """
        if self._threads is None:
            if records:
                send(records)
            return
        lanes: list[list[SinkRecord]] = [[] for _ in range(self._count)]
        for record in records:
            lanes[lane_of(record, self._count)].append(record)
        running = [self._threads.submit(send, lane) for lane in lanes if lane]
        errors = [error for each in running if (error := each.exception()) is not None]
        if errors:
            raise next((each for each in errors if not isinstance(each, RetriableError)), errors[0])

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()


def lane_of(record: SinkRecord, count: int) -> int:
    """The lane of a record: that of its key, or without a key that of its partition."""
    key = record.key
    if key is None:
        return record.original_partition % count
    data = key if isinstance(key, bytes) else repr(key).encode(errors="replace")
    return crc32(data) % count
