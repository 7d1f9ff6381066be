"""Batches as a leader sends them, checked from their headers; no record is decoded."""

from __future__ import annotations

from typing import NamedTuple

from penstock.protocol.batch import BatchHeader, CorruptBatch, crc_is_valid, iter_headers


class FetchedBatches(NamedTuple):
    """What of a response may be appended; it may be nothing."""

    headers: list[BatchHeader]
    size_bytes: int


def check_fetched(records: memoryview, leader_epoch: int) -> FetchedBatches:
    """The whole batches at the beginning of `records` that were written up to `leader_epoch`.

    A torn batch at the end is left for the next fetch. One of a later epoch means that the leader has
    followed another one between two reads, so what comes from there on is not of its own leadership's log
    as asked for (KAFKA-18723). Raises CorruptBatch where a checksum fails.
    """
    headers = []
    end = 0
    for position, header in iter_headers(records):
        if header.partition_leader_epoch > leader_epoch:
            break
        if not crc_is_valid(records, header, position):
            raise CorruptBatch(
                f"checksum of the batch at byte {position} (offset {header.base_offset}) fails"
            )
        headers.append(header)
        end = position + header.size_bytes
    return FetchedBatches(headers, end)
