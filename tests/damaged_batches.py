"""Record batches whose header and checksum are right and whose records are not what the header states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from penstock.protocol.batch import HEADER_SIZE, BatchHeader, parse_header
from penstock.protocol.compression import Codec, compress
from penstock.protocol.records import (
    Record,
    assemble_batch,
    encode_batch,
    encode_record,
    records_section,
    write_varint,
)

Section = Callable[[bytearray, BatchHeader], tuple[bytes, BatchHeader]]


def _truncated(section: bytearray, header: BatchHeader) -> tuple[bytes, BatchHeader]:
    return bytes(section[: len(section) * 2 // 3]), header


def _with_a_record_more(section: bytearray, header: BatchHeader) -> tuple[bytes, BatchHeader]:
    encode_record(section, header.count, 0, None, b"more")
    return bytes(section), header


def _with_a_record_fewer(section: bytearray, header: BatchHeader) -> tuple[bytes, BatchHeader]:
    return bytes(section), header._replace(
        count=header.count + 1, last_offset_delta=header.last_offset_delta + 1
    )


def _with_first_byte(change: Callable[[int], int]) -> Section:
    """Change the length of the first record, which is one byte: twice the length."""

    def damage(section: bytearray, header: BatchHeader) -> tuple[bytes, BatchHeader]:
        section[0] = change(section[0])
        return bytes(section), header

    return damage


def _with_offsets(offset_of: Callable[[int], int]) -> Section:
    def damage(section: bytearray, header: BatchHeader) -> tuple[bytes, BatchHeader]:
        out = bytearray()
        for number in range(header.count):
            encode_record(out, offset_of(number), 0, None, b"value")
        return bytes(out), header

    return damage


def _with_a_body(*fields: int | bytes) -> Section:
    """Replace all records by one whose body has these varints and bytes behind the offset."""

    def damage(section: bytearray, header: BatchHeader) -> tuple[bytes, BatchHeader]:
        body = bytearray(b"\0\0\0")
        for field in fields:
            if isinstance(field, bytes):
                body += field
            else:
                write_varint(body, field)
        out = bytearray()
        write_varint(out, len(body))
        return bytes(out + body), header._replace(count=1, last_offset_delta=0)

    return damage


SECTIONS: Final[dict[str, Section]] = {
    "records cut short": _truncated,
    "more records than stated": _with_a_record_more,
    "fewer records than stated": _with_a_record_fewer,
    "record shorter than stated": _with_first_byte(lambda length: length + 2),
    "record longer than stated": _with_first_byte(lambda length: length - 2),
    "negative record length": _with_first_byte(lambda length: 1),
    "value beyond the record": _with_a_body(-1, 100, b"value", 0),
    "header count beyond the record": _with_a_body(-1, 1, b"v", 100),
    "negative header count": _with_a_body(-1, 1, b"v", -3),
    "header without a key": _with_a_body(-1, 1, b"v", 1, -1, 1, b"x"),
    "varint without an end": _with_a_body(b"\xff" * 12),
    "offsets with a gap": _with_offsets(lambda number: number + (number > 1)),
    "the same offset again": _with_offsets(lambda number: 0),
    "descending offsets": _with_offsets(lambda number: -number),
}
"""By name, how to change the uncompressed records and the header."""


def _rebuilt(data: bytes, section: Section) -> bytes:
    header = parse_header(data)
    records, header = section(bytearray(records_section(data, header)), header)
    return bytes(assemble_batch(header, compress(header.compression, records)))


def _with_bytes(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Change the compressed bytes."""
    header = parse_header(data)
    return bytes(assemble_batch(header, change(data[HEADER_SIZE:])))


def damages(records: Sequence[Record], codec: Codec) -> dict[str, bytes]:
    """Every damage of a batch of these records in this codec, by name.

    The records have no keys and no headers, and less than 60 bytes each.
    """
    good = encode_batch(records, compression=codec)
    header = parse_header(good)
    found = {name: _rebuilt(good, section) for name, section in SECTIONS.items()}
    for other in Codec:
        if other != codec:
            payload = compress(other, records_section(good, header))
            found[f"bytes of {other.name.lower()}"] = bytes(assemble_batch(header, payload))
    if codec != Codec.NONE:
        noise = Random(1).randbytes(200)
        found["compressed bytes cut short"] = _with_bytes(good, lambda payload: payload[: len(payload) // 2])
        found["noise"] = _with_bytes(good, lambda payload: noise)
        found["no bytes"] = _with_bytes(good, lambda payload: b"")
        found["bytes behind the compressed ones"] = _with_bytes(good, lambda payload: payload + noise)
    else:
        found["bytes behind the records"] = _with_bytes(good, lambda payload: payload + b"\0\0")
    return found
