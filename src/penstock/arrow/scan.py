"""Read ranges of partitions as Arrow batches, fetching and decoding ahead of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

import pyarrow as pa

from penstock.arrow.batches import KeepDeadLetters, record_batches
from penstock.arrow.layout import Layout
from penstock.arrow.read_ahead import read_ahead
from penstock.client.batches import batch_ends
from penstock.client.reading.fetcher import Fetched, PartitionRange

# Limit on fetched bytes that wait for the caller, besides one response being received and one being decoded.
_MAX_BYTES_AHEAD: Final = 32 << 20
# Bytes that one thread decodes at a time: some ten thousand ordinary records, uncompressed.
_BYTES_PER_CHUNK: Final = 4 << 20


class ScannedBatch(NamedTuple):
    """Records of one range, in its order."""

    range: PartitionRange
    batch: pa.RecordBatch


def scan(
    fetched: Iterator[Fetched],
    layout: Layout,
    *,
    check_crcs: bool,
    threads: int = 1,
    dead_letters: KeepDeadLetters | None = None,
) -> Iterator[ScannedBatch]:
    """Yield the records of the fetched data, in its order; ``fetched`` runs in a thread of its own.

    With one thread, the caller's thread decodes, in order and only as far as it asks for batches. With more,
    as many other threads decode ahead of it. ``dead_letters``, for a layout that leaves some records out, is
    called by the one thread. Errors of ``fetched`` and of decoding are raised at their place in the order.
    """
    if threads == 1:
        return _scan_here(fetched, layout, check_crcs, dead_letters)
    assert dead_letters is None
    return _scan_in_threads(fetched, layout, check_crcs, threads)


def _scan_here(
    fetched: Iterator[Fetched], layout: Layout, check_crcs: bool, dead_letters: KeepDeadLetters | None
) -> Iterator[ScannedBatch]:
    for answer in read_ahead(fetched, lambda answer: len(answer.batches), _MAX_BYTES_AHEAD):
        for batch in record_batches(
            answer.batches, answer.range, layout, check_crcs=check_crcs, dead_letters=dead_letters
        ):
            yield ScannedBatch(answer.range, batch)


class _Begun(NamedTuple):
    """The first Arrow batch of a chunk, and an iterator over the rest, which is not decoded ahead."""

    first: pa.RecordBatch | None
    rest: Iterator[pa.RecordBatch]


class _Chunk(NamedTuple):
    range: PartitionRange
    bytes: int
    begun: Future[_Begun]


def _scan_in_threads(
    fetched: Iterator[Fetched], layout: Layout, check_crcs: bool, threads: int
) -> Iterator[ScannedBatch]:
    def begin(answer: Fetched, chunk: memoryview) -> _Begun:
        rest = record_batches(chunk, answer.range, layout, check_crcs=check_crcs)
        return _Begun(next(rest, None), rest)

    def chunks() -> Iterator[_Chunk]:
        for answer in fetched:
            for chunk in _chunks(answer.batches):
                yield _Chunk(answer.range, len(chunk), pool.submit(begin, answer, chunk))

    pool = ThreadPoolExecutor(threads, "penstock-decode")
    ahead = read_ahead(chunks(), lambda chunk: chunk.bytes, _MAX_BYTES_AHEAD)
    try:
        for chunk in ahead:
            first, rest = chunk.begun.result()
            if first is not None:
                yield ScannedBatch(chunk.range, first)
            for batch in rest:
                yield ScannedBatch(chunk.range, batch)
    finally:
        ahead.close()
        pool.shutdown(wait=False, cancel_futures=True)


def _chunks(batches: memoryview) -> Iterator[memoryview]:
    """Split the data between batches into chunks of at least `_BYTES_PER_CHUNK`."""
    start = 0
    for end in batch_ends(batches):
        if end - start >= _BYTES_PER_CHUNK:
            yield batches[start:end]
            start = end
    if start < len(batches):
        yield batches[start:]
