"""The decoder of pgoutput and the frames around it; test_postgres_records.py has what real servers send."""

import os
import random
import struct

import pytest

from penstock.connect.cdc.postgres.framing import (
    POSTGRES_EPOCH_US,
    Keepalive,
    XLogData,
    format_lsn,
    parse_lsn,
    read_frame,
    status_update,
)
from penstock.connect.cdc.postgres.messages import (
    Delete,
    Insert,
    LogicalMessage,
    Relation,
    RelationColumn,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    Truncate,
    TypeName,
    Update,
)
from penstock.connect.cdc.postgres.pgoutput import BinaryValue, Decoder, Unchanged, read_columns
from penstock.connect.errors import ReplicationProtocolError

ROW = b"\0\x04t\0\0\0\x02abnub\0\0\0\x01\xff"
STREAM_START = b"S" + struct.pack(">IB", 9, 1)


def test_a_row_has_text_null_unchanged_and_binary_columns() -> None:
    assert read_columns(ROW) == ["ab", None, Unchanged.TOAST, BinaryValue(b"\xff")]


def test_changes() -> None:
    decoder = Decoder()
    oid = struct.pack(">I", 7)
    assert decoder.decode(b"I" + oid + b"N" + ROW) == Insert(7, ROW, None)
    assert decoder.decode(b"U" + oid + b"N" + ROW) == Update(7, None, False, ROW, None)
    assert decoder.decode(b"U" + oid + b"K" + ROW + b"N" + ROW) == Update(7, ROW, True, ROW, None)
    assert decoder.decode(b"U" + oid + b"O" + ROW + b"N" + ROW) == Update(7, ROW, False, ROW, None)
    assert decoder.decode(b"D" + oid + b"K" + ROW) == Delete(7, ROW, True, None)
    assert decoder.decode(b"T" + struct.pack(">IBII", 2, 3, 7, 8)) == Truncate((7, 8), True, True, None)


def test_streamed_messages_carry_the_id_of_their_transaction() -> None:
    decoder = Decoder(2)
    xid = struct.pack(">I", 9)
    relation = struct.pack(">I", 7) + b"s\0t\0d\0\x01\x01id\0" + struct.pack(">Ii", 23, -1)
    assert decoder.decode(STREAM_START) == StreamStart(9, True)
    columns = (RelationColumn("id", 23, -1, True),)
    assert decoder.decode(b"R" + xid + relation) == Relation(7, "s", "t", "d", columns, 9)
    assert decoder.decode(b"Y" + xid + struct.pack(">I", 5) + b"\0mood\0") == TypeName(
        5, "pg_catalog", "mood", 9
    )
    assert decoder.decode(b"I" + xid + struct.pack(">I", 7) + b"N" + ROW) == Insert(7, ROW, 9)
    message = b"M" + xid + struct.pack(">BQ", 1, 16) + b"p\0" + struct.pack(">i", 1) + b"x"
    assert decoder.decode(message) == LogicalMessage(True, 16, "p", b"x", 9)
    assert decoder.decode(b"E") == StreamStop()
    assert decoder.decode(b"I" + struct.pack(">I", 7) + b"N" + ROW) == Insert(7, ROW, None)
    commit = b"c" + struct.pack(">IBQQq", 9, 0, 32, 40, 5)
    assert decoder.decode(commit) == StreamCommit(9, 32, 40, POSTGRES_EPOCH_US + 5)
    assert decoder.decode(b"A" + struct.pack(">II", 9, 10)) == StreamAbort(9, 10, None, None)
    parallel = b"A" + struct.pack(">IIQq", 9, 10, 48, 5)
    assert decoder.decode(parallel) == StreamAbort(9, 10, 48, POSTGRES_EPOCH_US + 5)


@pytest.mark.parametrize(
    ("version", "messages", "error"),
    [
        (1, [b"?"], r"the pgoutput message '\?' at 1/2 is unknown"),
        (1, [b""], r"the pgoutput message '' at 1/2 is unknown"),
        (1, [STREAM_START], "'S' at 1/2 belongs to streaming, which version 1 does not have"),
        (2, [STREAM_START, STREAM_START], "'S' at 1/2 came while a block was open"),
        (2, [b"E"], "'E' at 1/2 came while no block was open"),
        (3, [b"P"], "'P' at 1/2 is a prepare; two-phase commit is not supported"),
        (1, [b"I\0\0\0\x07K" + ROW], r"'I' at 1/2 is malformed.*the row is of kind b'K'; expected b'N'"),
        (1, [b"I\0\0\0\x07N\0\x01x"], "a column is of kind 'x'; expected one of"),
        (1, [b"I\0\0\0\x07N\0\x01t\0\0\0\x09ab"], "9 bytes are announced, 2 are left"),
        (1, [b"I\0\0\0\x07N\0\x01t\xff\xff\xff\xff"], "-1 bytes are announced"),
        (1, [b"I\0\0\0\x07N\0\x00more"], "4 bytes are left over"),
        (1, [b"B\0"], "'B' at 1/2 is malformed at 1 of 2 bytes"),
        (1, [b"T\xff\xff\xff\xff\0"], "'T' at 1/2 is malformed"),
    ],
)
def test_errors_name_message_and_position(version: int, messages: list[bytes], error: str) -> None:
    decoder = Decoder(version)
    for message in messages[:-1]:
        decoder.decode(message)
    with pytest.raises(ReplicationProtocolError, match=error):
        decoder.decode(messages[-1], parse_lsn("1/2"))


def test_damaged_messages_raise_nothing_else() -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    samples = [
        b"I\0\0\0\x07N" + ROW,
        b"U\0\0\0\x07K" + ROW + b"N" + ROW,
        STREAM_START,
        b"R\0\0\0\x07s\0t\0d\0\0",
    ]
    for _ in range(3000):
        data = bytearray(chance.choice(samples))
        for _ in range(chance.randrange(3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            message = Decoder(4).decode(bytes(data[: chance.randrange(len(data) + 1)]))
            if isinstance(message, Insert):
                read_columns(message.new)
        except ReplicationProtocolError:
            pass


def test_frames() -> None:
    data = read_frame(b"w" + struct.pack(">QQq", 16, 32, 5) + b"payload")
    assert data == XLogData(16, 32, POSTGRES_EPOCH_US + 5, memoryview(b"payload"))
    assert read_frame(b"k" + struct.pack(">QqB", 32, 5, 1)) == Keepalive(32, POSTGRES_EPOCH_US + 5, True)
    with pytest.raises(ReplicationProtocolError, match="begins with b'k' and has 2 bytes"):
        read_frame(b"kx")


def test_a_status_update_confirms_what_is_flushed() -> None:
    update = status_update(received=32, flushed=16, now_us=POSTGRES_EPOCH_US + 5)
    assert update == b"r" + struct.pack(">QQQqB", 32, 16, 16, 5, 0)


def test_lsn_texts() -> None:
    assert format_lsn(parse_lsn("16/B374D848")) == "16/B374D848"
    with pytest.raises(ValueError, match="is not an LSN"):
        parse_lsn("16")
