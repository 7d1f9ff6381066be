"""Read a partition as a consumer does: `read_committed` drops aborted transactions on the client's side."""

from collections.abc import Iterator

from node_client import NodeClient, Partition

from penstock.protocol import batch as batches
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchResponse
from penstock.protocol.records import Record, decode_batch

ABORT = b"\x00\x00\x00\x00"  # key of a marker: version 0, type 0 (1 commits)


def read(
    client: NodeClient, partition: Partition, offset: int, *, committed: bool, max_bytes: int
) -> tuple[list[Record], FetchResponse.PartitionData]:
    """All records from an offset to the last one that this reader may read, and the last response."""
    found: list[Record] = []
    while True:
        data = client.fetch(partition, offset, committed=committed, max_bytes=max_bytes)
        assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code).name
        end = data.last_stable_offset if committed else data.high_watermark
        reached = offset
        records = bytes(data.records or b"")
        for header, whole in delivered(records, aborted_of(data) if committed else []):
            assert header.base_offset < end, f"{partition}: batch at {header.base_offset} beyond {end}"
            assert header.last_offset >= reached, f"{partition}: batch {header.base_offset} comes again"
            reached = header.next_offset
            found += [record for record in whole if record.offset >= offset]
        if reached >= end:
            return found, data
        assert reached > offset, f"{partition}: nothing to read at {offset} although the end is {end}"
        offset = reached


def aborted_of(data: FetchResponse.PartitionData) -> list[tuple[int, int]]:
    """The (first offset, producer id) of each aborted transaction in the response, by offset."""
    return sorted((t.first_offset, t.producer_id) for t in data.aborted_transactions or [])


def delivered(
    data: bytes, aborted: list[tuple[int, int]]
) -> Iterator[tuple[batches.BatchHeader, list[Record]]]:
    """Each whole batch with the records that the application gets: no markers and no aborted records."""
    dropping: set[int] = set()
    for position, header in batches.iter_headers(data):
        assert batches.crc_is_valid(data, header, position)
        while aborted and aborted[0][0] <= header.last_offset:
            dropping.add(aborted.pop(0)[1])
        if header.is_control:
            for marker in decode_batch(data, position):
                if marker.key == ABORT:
                    dropping.discard(header.producer_id)
            yield header, []
        elif header.is_transactional and header.producer_id in dropping:
            yield header, []
        else:
            yield header, list(decode_batch(data, position))
