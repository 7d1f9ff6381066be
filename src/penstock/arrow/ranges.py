"""Fetch ranges of partitions to their ends, even if records or partitions disappear meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.arrow.loss import LossRule
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import OffsetOutOfRange, UnknownPartition
from penstock.client.reading.fetcher import Fetched, Fetcher, PartitionRange
from penstock.client.reading.offsets import EARLIEST, LATEST, list_offsets


def fetch_ranges(
    fetcher: Fetcher, cluster: Cluster, ranges: Iterable[PartitionRange], loss: LossRule
) -> Iterator[Fetched]:
    """Yield whole batches of all ranges: in order within each, interleaved between partitions as they arrive.

    Several ranges of one partition are fetched one after the other. ``loss`` determines what happens to
    missing records. Raises DataLoss or ClientError.
    """
    later = list(ranges)
    while later:
        together: dict[tuple[str, int], PartitionRange] = {}
        rest: list[PartitionRange] = []
        for wanted in later:
            key = (wanted.topic, wanted.partition)
            if key in together:
                rest.append(wanted)
            else:
                together[key] = wanted
        yield from _fetch_partitions(fetcher, cluster, together, loss)
        later = rest


def _fetch_partitions(
    fetcher: Fetcher, cluster: Cluster, remaining: dict[tuple[str, int], PartitionRange], loss: LossRule
) -> Iterator[Fetched]:
    """Fetch one range of each partition; entries of ``remaining`` are updated and removed on the way."""
    while remaining:
        try:
            for fetched in fetcher.read(remaining.values()):
                yield fetched
                key = (fetched.range.topic, fetched.range.partition)
                remaining[key] = remaining[key]._replace(start=min(fetched.next_offset, fetched.range.end))
            return
        except OffsetOutOfRange as gone:
            key = (gone.topic, gone.partition)
            remaining[key] = _after_loss(remaining[key], gone, cluster, loss)
        except UnknownPartition as gone:
            loss.report(str(gone))
            for key in [key for key in remaining if _is_gone(gone, *key)]:
                del remaining[key]
        for key in [key for key, wanted in remaining.items() if wanted.start >= wanted.end]:
            del remaining[key]


def _is_gone(gone: UnknownPartition, topic: str, partition: int) -> bool:
    return gone.topic == topic and gone.partition in (None, partition)


def _after_loss(
    wanted: PartitionRange, gone: OffsetOutOfRange, cluster: Cluster, loss: LossRule
) -> PartitionRange:
    """Return the rest of a range after its leader refused an offset. Raises DataLoss."""
    tp = wanted.topic_partition
    earliest = list_offsets(cluster, {tp: EARLIEST})[tp].offset
    latest = list_offsets(cluster, {tp: LATEST})[tp].offset
    loss.report(
        f"offset {gone.offset} of {tp} cannot be read: its log begins at {earliest} and ends before {latest}"
    )
    start = max(gone.offset, earliest) if gone.offset < latest else wanted.end
    return wanted._replace(start=start, end=max(start, min(wanted.end, latest)))
