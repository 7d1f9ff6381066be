"""Check batches that a leader sent by their headers, without decoding records."""

from __future__ import annotations

from typing import NamedTuple

from penstock.protocol.batch import BatchHeader, CorruptBatch, crc_is_valid, iter_headers


class FetchedBatches(NamedTuple):
    """The part of a response that may be appended; it may be empty."""

    headers: list[BatchHeader]
    size_bytes: int


def check_fetched(records: memoryview, leader_epoch: int) -> FetchedBatches:
    """Return the whole batches at the beginning of `records` that were written up to `leader_epoch`.

    A torn batch at the end is left for the next fetch. A batch of a later epoch means that the leader became
    a follower of another leader between two reads. So the data from there on is not from the log of its own
    leadership that was requested (KAFKA-18723). Raises CorruptBatch if a checksum fails.
    """
    headers = []
    end = 0
    for position, header in iter_headers(records):
        if header.partition_leader_epoch > leader_epoch:
            break
        if not crc_is_valid(records, header, position):
            raise CorruptBatch(
                f"the batch at byte {position} (offset {header.base_offset}) has a wrong checksum"
            )
        headers.append(header)
        end = position + header.size_bytes
    return FetchedBatches(headers, end)
