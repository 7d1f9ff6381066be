"""Splits the batches that a follower fetched from its leader into runs, one for each write.

A leader's log may have gaps where it was compacted, and its segments may have other sizes. A run contains
what one write may append: batches that follow each other without a gap and fit into one segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.protocol.batch import BatchHeader
from penstock.storage.errors import UnexpectedOffset
from penstock.storage.names import TopicPartition


class Run(NamedTuple):
    """The batches of one write; `position` and `size_bytes` locate them in the bytes from the leader."""

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
    """Split the batches, in their order, into runs of at most `segment_bytes`; a larger batch is its own run.

    All batches are checked before the first run is returned. Raises UnexpectedOffset if one begins below the
    end of its predecessor; the first must not begin below `end_offset`.
    """
    expected = end_offset
    for header in headers:
        if header.base_offset < expected:
            raise UnexpectedOffset(
                f"{name}: the leader's batch of offsets {header.base_offset} to {header.last_offset} begins "
                f"below the expected offset {expected}",
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
