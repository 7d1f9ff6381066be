"""What compaction asks of a batch's records: the twins agree, and a dictionary agrees with them."""

import random
from types import ModuleType

import pytest

from penstock.protocol import _kernel_py, batch
from penstock.protocol.batch import HEADER_SIZE, LOG_APPEND_TIME, MalformedRecords
from penstock.protocol.records import Record, assemble_batch, decode_batch, encode_batch

KERNELS: dict[str, ModuleType] = {"pure": _kernel_py}
try:
    from penstock.protocol import _kernel

    KERNELS["compiled"] = _kernel
except ImportError:
    pass

SECRET = bytes(range(16))


def random_batch(rng: random.Random, base_offset: int) -> bytes:
    """A batch as producers and earlier cleanings leave them: gaps, tombstones, headers, odd timestamps."""
    offset = base_offset
    records = []
    for _ in range(rng.randrange(1, 12)):
        offset += rng.choice((0, 0, 1, 70)) if records else 0
        records.append(
            Record(
                offset,
                1_700_000_000_000 + rng.choice((0, 5, -3, 1 << 40)),
                rng.choice((None, b"", b"k%d" % rng.randrange(6), b"long" * 40)),
                rng.choice((None, b"", b"v" * rng.randrange(200))),
                [("h", rng.choice((None, b"x")))] * rng.choice((0, 0, 2)),
            )
        )
        offset += 1
    timestamp_type = rng.choice((0, LOG_APPEND_TIME))
    return encode_batch(records, base_offset, timestamp_type=timestamp_type, keep_offsets=True)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_map_keeps_the_newest_offset_of_as_many_keys_as_it_was_made_for(kernel: ModuleType) -> None:
    offsets = kernel.OffsetMap(110, 100, SECRET)
    for offset in range(100):
        assert offsets.put(b"key %d" % offset, offset)
    assert offsets.get(b"key 7") == 7
    assert offsets.get(b"another") == -1
    assert len(offsets) == 100
    assert offsets.latest_offset == 99
    assert not offsets.put(b"key 7", 200), "a full map takes no key, not even one that it knows"
    assert (offsets.get(b"key 7"), offsets.latest_offset) == (7, 99)
    full = kernel.OffsetMap(3, 3, SECRET)
    for offset, key in enumerate((b"", b"a", b"\0" * 8)):
        assert full.put(key, offset)
    assert [full.get(key) for key in (b"", b"a", b"\0" * 8, b"\0", b"b")] == [0, 1, 2, -1, -1]
    for slots, capacity in ((1, 2), (1, 0), (0, 0)):
        with pytest.raises(ValueError, match="an offset map of"):
            kernel.OffsetMap(slots, capacity, SECRET)


@pytest.mark.parametrize("seed", range(60))
def test_twins_judge_and_rebuild_alike(seed: int) -> None:
    rng = random.Random(seed)
    batches = [random_batch(rng, 1000 * i) for i in range(5)]
    capacity = rng.choice((2, 4, 100))
    start_offset = rng.choice((0, 1003, 2000))
    keep_tombstones = rng.random() < 0.5
    base_timestamp = rng.choice((None, 0, 1_700_000_000_123))
    found = []
    for kernel in KERNELS.values():
        offsets = kernel.OffsetMap(capacity, capacity, SECRET)
        results: list[object] = []
        for data in batches:
            header, payload = batch.parse_header(data), memoryview(data)[HEADER_SIZE:]
            if not kernel.index_records(offsets, payload, header, start_offset):
                break
        for data in batches:
            header, payload = batch.parse_header(data), memoryview(data)[HEADER_SIZE:]
            judged = kernel.judge_records(offsets, payload, header, keep_tombstones)
            assert kernel.count_keyless(payload, header) == sum(r.key is None for r in decode_batch(data))
            results += [judged, kernel.rebuild_records(payload, header, judged[0], base_timestamp)]
        found.append((len(offsets), offsets.latest_offset, results))
    assert all(results == found[0] for results in found)


@pytest.mark.parametrize("seed", range(40))
def test_rebuilt_records_are_those_that_were_marked(seed: int) -> None:
    rng = random.Random(seed)
    data = random_batch(rng, 5000)
    header = batch.parse_header(data)
    records = list(decode_batch(data))
    keep = bytes(rng.randrange(2) for _ in records)
    for kernel in KERNELS.values():
        payload, base, latest = kernel.rebuild_records(data[HEADER_SIZE:], header, keep, None)
        kept = [record for record, mark in zip(records, keep, strict=True) if mark]
        if header.timestamp_type != LOG_APPEND_TIME:
            assert latest == max((record.timestamp for record in kept), default=-1)
        changed = header._replace(base_timestamp=base, count=len(kept))
        assert list(decode_batch(bytes(assemble_batch(changed, payload)))) == kept
        everything = kernel.rebuild_records(data[HEADER_SIZE:], header, b"\1" * len(records), None)
        if header.timestamp_type != LOG_APPEND_TIME:
            assert everything[0] == data[HEADER_SIZE:], "Kafka's own encoding"


@pytest.mark.parametrize("seed", range(150))
def test_twins_refuse_the_same_bytes(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(random_batch(rng, 0))
    header = batch.parse_header(data)
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(HEADER_SIZE, len(data))] = rng.randrange(256)
    payload = bytes(data[HEADER_SIZE : rng.choice((len(data), rng.randrange(HEADER_SIZE, len(data))))])
    outcomes = []
    for kernel in KERNELS.values():
        offsets = kernel.OffsetMap(100, 100, SECRET)
        outcome: list[object] = []
        for work in (
            lambda kernel=kernel, offsets=offsets: kernel.index_records(offsets, payload, header, 0),
            lambda kernel=kernel, offsets=offsets: kernel.judge_records(offsets, payload, header, False),
            lambda kernel=kernel: kernel.rebuild_records(payload, header, b"\1" * header.count, None),
            lambda kernel=kernel: kernel.count_keyless(payload, header),
        ):
            try:
                outcome.append(work())
            except MalformedRecords:
                outcome.append("malformed")
        outcomes.append(outcome)
    assert all(outcome == outcomes[0] for outcome in outcomes)
