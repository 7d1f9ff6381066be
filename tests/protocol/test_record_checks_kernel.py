"""The checks of produced records: both kernels agree with each other and with the decoder."""

from random import Random
from types import ModuleType

import pytest

from penstock.protocol import batch
from penstock.protocol.batch import HEADER_SIZE, NO_TIMESTAMP, MalformedRecords
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
