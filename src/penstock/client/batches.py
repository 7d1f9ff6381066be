"""Operations on record batches without opening them: find their ends, drop aborted ones, number them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.protocol.batch import (
    ATTRIBUTES_OFFSET,
    CRC_OFFSET,
    LEGACY_OVERHEAD,
    LOG_OVERHEAD,
    BatchHeader,
    CorruptBatch,
    parse_header,
)
from penstock.protocol.records import ControlRecordType, control_record_type, decode_batch

_OFFSET_AND_LENGTH: Final = Struct(">qi")
_CRC: Final = Struct(">I")
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_OFFSET: Final = 43


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class WholeBatches(NamedTuple):
    """The whole batches at the start of fetched bytes, without the torn batch at their end."""

    data: memoryview
    next_offset: int | None  # None: there is not even one whole batch


def whole_batches(records: memoryview) -> WholeBatches:
    """Cut off the torn batch that a fetch limited by bytes may end with. Raises CorruptBatch."""
    last = None
    position = 0
    while position + LOG_OVERHEAD <= len(records):
        length = _OFFSET_AND_LENGTH.unpack_from(records, position)[1]
        if length < min(LEGACY_OVERHEAD):
            raise CorruptBatch(f"a batch of {length} bytes at position {position} of {len(records)}")
        end = position + LOG_OVERHEAD + length
        if end > len(records):
            break
        last, position = position, end
    if last is None:
        return WholeBatches(records[:0], None)
    return WholeBatches(records[:position], parse_header(records, last).next_offset)


def batch_ends(records: memoryview) -> Iterator[int]:
    """Yield the position at which each whole batch ends."""
    position = 0
    while position < len(records):
        position += LOG_OVERHEAD + _OFFSET_AND_LENGTH.unpack_from(records, position)[1]
        yield position


def headers(records: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each whole batch."""
    position = 0
    while position < len(records):
        header = parse_header(records, position)
        yield position, header
        position += header.size_bytes


def committed(records: memoryview, aborted: Iterable[AbortedTransaction]) -> Iterator[memoryview]:
    """Yield the spans of whole batches that no aborted transaction wrote (KIP-98).

    ``aborted`` is the list of a fetch response: each transaction's batches begin at ``first_offset`` and end
    at the producer's next abort marker.
    """
    coming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()
    start = position = 0
    for position, header in headers(records):
        while coming and coming[-1].first_offset <= header.last_offset:
            aborting.add(coming.pop().producer_id)
        if header.is_control:
            if _is_abort_marker(records, position, header):
                aborting.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in aborting:
            if start < position:
                yield records[start:position]
            start = position + header.size_bytes
    if start < len(records):
        yield records[start:]


def _is_abort_marker(records: memoryview, position: int, header: BatchHeader) -> bool:
    marker = next(decode_batch(records, position))
    return control_record_type(marker.key) == ControlRecordType.ABORT


def number(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Write the producer's identity and sequence into a batch's header and recompute its checksum."""
    _PRODUCER.pack_into(batch, _PRODUCER_OFFSET, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]))
