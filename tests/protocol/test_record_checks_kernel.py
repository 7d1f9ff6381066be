"""The checks of produced records: both kernels agree with each other and with the decoder."""

import struct
from random import Random
from types import ModuleType

import pytest
from crc32c import crc32c

from penstock.protocol import batch
from penstock.protocol.batch import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, MalformedRecords
from penstock.protocol.kernels import pure
from penstock.protocol.kernels.record_checks_py import NO_EARLIEST
from penstock.protocol.records import Record, encode_batch, wrap_int64

KERNELS: dict[str, ModuleType] = {"pure": pure}
try:
    from penstock.protocol.kernels import compiled

    KERNELS["compiled"] = compiled
except ImportError:
    pass

NOW_MS = 1_700_000_000_000
LEADER_EPOCH_AT = 12
"""The checksum does not cover the four bytes from here on, and the broker sets them."""
TIMESTAMPS = (NOW_MS, NOW_MS - 5, NOW_MS + (1 << 40), NO_TIMESTAMP, 0, -7)


def random_rows(random: Random) -> list[Record]:
    return [
        Record(
            0,
            random.choice(TIMESTAMPS),
            random.choice((None, b"", b"key", b"long" * 40)),
            random.choice((None, b"", b"v" * random.randrange(200))),
            [("h", random.choice((None, b"x")))] * random.choice((0, 0, 2)),
        )
        for _ in range(random.randrange(1, 12))
    ]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_sound_records_are_counted(kernel: ModuleType, seed: int) -> None:
    rows = random_rows(Random(seed))
    data = encode_batch(rows, base_offset=700)
    timestamps = [row.timestamp for row in rows if row.timestamp != NO_TIMESTAMP]
    expected = (
        min(timestamps, default=NO_EARLIEST),
        max([NO_TIMESTAMP, *timestamps]),
        sum(row.key is None for row in rows),
    )
    assert kernel.check_records(memoryview(data)[HEADER_SIZE:], batch.parse_header(data)) == expected


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_timestamps_wrap_as_in_java(kernel: ModuleType) -> None:
    data = encode_batch([Record(0, 0, None, b"a"), Record(0, 2**63 - 1, None, b"b")])
    header = batch.parse_header(data)._replace(base_timestamp=5)
    checked = kernel.check_records(memoryview(data)[HEADER_SIZE:], header)
    assert checked == (wrap_int64(2**63 + 4), 5, 2)


@pytest.mark.parametrize("seed", range(200))
def test_twins_refuse_the_same_records(seed: int) -> None:
    random = Random(seed)
    data = bytearray(encode_batch(random_rows(random)))
    header = batch.parse_header(data)
    for _ in range(random.randrange(1, 4)):
        data[random.randrange(HEADER_SIZE, len(data))] = random.randrange(256)
    if random.random() < 0.3:
        header = header._replace(count=header.count + random.choice((-1, 1)))
    payload = bytes(data[HEADER_SIZE : random.choice((len(data), random.randrange(HEADER_SIZE, len(data))))])
    outcomes: list[object] = []
    for kernel in KERNELS.values():
        try:
            outcomes.append(kernel.check_records(payload, header))
        except MalformedRecords:
            outcomes.append("malformed")
    assert all(outcome == outcomes[0] for outcome in outcomes)


def random_batch(random: Random) -> bytearray:
    producer = random.choice(((-1, -1, -1), (5, 0, 0), (5, 3, 2**31 - 1)))
    data = encode_batch(
        random_rows(random),
        compression=random.choice((0, 0, 0, 1)),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=random.random() < 0.3,
        timestamp_type=random.choice((0, 0, 0, 1)),
    )
    return bytearray(data)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_sound_plain_batch_is_checked_in_one_call(kernel: ModuleType) -> None:
    rows = [Record(0, NOW_MS + number % 3, None, b"v" * 1000) for number in range(17)]
    for transactional in (False, True):
        data = encode_batch(
            rows, producer_id=7, producer_epoch=1, base_sequence=5, transactional=transactional
        )
        header = kernel.check_plain_batch(memoryview(data))
        assert header == batch.parse_header(data)
        assert isinstance(header, BatchHeader)
    assert kernel.check_plain_batch(memoryview(encode_batch(rows, compression=1))) is None
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x20
        checked = kernel.check_plain_batch(memoryview(damaged))
        assert checked is None or LEADER_EPOCH_AT <= at < LEADER_EPOCH_AT + 4, f"byte {at} went unnoticed"


@pytest.mark.parametrize("seed", range(300))
def test_twins_take_the_same_plain_batches(seed: int) -> None:
    random = Random(seed)
    data = random_batch(random)
    for _ in range(random.randrange(4)):
        data[random.randrange(len(data))] = random.choice((0, 1, 7, 0x10, 0x7F, 0xFF, random.randrange(256)))
    if random.random() < 0.8 and len(data) > HEADER_SIZE:
        struct.pack_into(">I", data, batch.CRC_OFFSET, crc32c(data[batch.ATTRIBUTES_OFFSET :]))
    if random.random() < 0.1:
        del data[random.randrange(len(data)) :]
    taken = [kernel.check_plain_batch(memoryview(data)) for kernel in KERNELS.values()]
    assert all(header == taken[0] for header in taken)
    if taken[0] is not None:
        header = batch.validate(memoryview(data))[0]
        assert taken[0] == header
        assert pure.check_records(data[HEADER_SIZE:], header).latest_timestamp == header.max_timestamp
