"""What a follower appends: batches that its leader has numbered, dealt out to writes.

A leader's log may have gaps where it was compacted, and its segments other sizes. A run is what one write
may take: batches that follow each other without a gap and fit into one segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.protocol.batch import BatchHeader
from penstock.storage.errors import UnexpectedOffset
from penstock.storage.names import TopicPartition


class Run(NamedTuple):
    """Batches for one write; `position` and `size_bytes` say where they lie among the leader's bytes."""

    position: int
    size_bytes: int
    headers: list[BatchHeader]

    @property
    def first_offset(self) -> int:
        return self.headers[0].base_offset

    @property
    def next_offset(self) -> int:
        return self.headers[-1].next_offset

    @property
    def max_timestamp(self) -> int:
        return max(header.max_timestamp for header in self.headers)


def runs(
    headers: Sequence[BatchHeader], end_offset: int, segment_bytes: int, name: TopicPartition
) -> Iterator[Run]:
    """The batches in their order, as runs of at most `segment_bytes`; a larger batch is a run by itself.

    All are checked before the first is given out. Raises UnexpectedOffset where one begins below the end of
    what comes before it, the first one's being `end_offset`.
    """
    expected = end_offset
    for header in headers:
        if header.base_offset < expected:
            raise UnexpectedOffset(
                f"{name}: the leader's batch of offsets {header.base_offset} to {header.last_offset} begins "
                f"below offset {expected}, the end of what is here",
                headers[0].base_offset,
                headers[-1].last_offset,
            )
        expected = header.next_offset
    return _split(headers, segment_bytes)


def _split(headers: Sequence[BatchHeader], segment_bytes: int) -> Iterator[Run]:
    position = size_bytes = 0
    run: list[BatchHeader] = []
    for header in headers:
        if run and (
            size_bytes + header.size_bytes > segment_bytes or header.base_offset != run[-1].next_offset
        ):
            yield Run(position, size_bytes, run)
            position, size_bytes, run = position + size_bytes, 0, []
        run.append(header)
        size_bytes += header.size_bytes
    if run:
        yield Run(position, size_bytes, run)
