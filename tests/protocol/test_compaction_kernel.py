"""Compaction's reading of a batch's records: both kernels agree, and a dictionary agrees with them."""

import random
from types import ModuleType

import pytest

from penstock.protocol import batch
from penstock.protocol.batch import HEADER_SIZE, LOG_APPEND_TIME, MalformedRecords
from penstock.protocol.kernels import pure
from penstock.protocol.records import (
    Record,
    assemble_batch,
    decode_batch,
    encode_batch,
    encode_end_txn_marker,
)

KERNELS: dict[str, ModuleType] = {"pure": pure}
try:
    from penstock.protocol.kernels import compiled

    KERNELS["compiled"] = compiled
except ImportError:
    pass

SECRET = bytes(range(16))


def random_batch(rng: random.Random, base_offset: int) -> bytes:
    """A batch as producers and earlier cleanings leave it: gaps, tombstones, headers, odd timestamps."""
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
        ):
            try:
                outcome.append(work())
            except MalformedRecords:
                outcome.append("malformed")
        outcomes.append(outcome)
    assert all(outcome == outcomes[0] for outcome in outcomes)


def some_batches(rng: random.Random) -> tuple[bytes, list[int]]:
    """Consecutive batches, mostly plain, with producers, delete horizons and gaps; and their positions."""
    data = b""
    starts = [0]
    offset = rng.randrange(5)
    for _ in range(rng.randrange(12)):
        found = bytearray(random_batch(rng, offset))
        if rng.random() < 0.3:
            found = bytearray(
                encode_end_txn_marker(
                    committed=rng.random() < 0.7,
                    producer_id=rng.randrange(4),
                    producer_epoch=rng.randrange(2),
                    coordinator_epoch=0,
                    timestamp=1_700_000_000_000 + rng.randrange(6),
                    base_offset=offset,
                )
            )
        header = batch.parse_header(found)
        change = rng.randrange(24)
        if change < 6:
            attributes = header.attributes | rng.choice((0, batch.TRANSACTIONAL_MASK))
            header = header._replace(
                producer_id=rng.randrange(4), producer_epoch=0, base_sequence=0, attributes=attributes
            )
        elif change < 9:
            header = header._replace(attributes=header.attributes | batch.DELETE_HORIZON_MASK)
        elif change == 9:
            header = header._replace(attributes=header.attributes | rng.choice((1, 0x10, 0x20)))
        elif change == 10:
            header = header._replace(
                **{rng.choice(("count", "last_offset_delta", "magic")): rng.choice((-1, 0, 1))}
            )
        elif change == 11:
            found, header = found[:HEADER_SIZE], header._replace(count=0)
        batch.write_header(found, header)
        if change == 12:
            found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
        elif change == 13:  # the checksum is still correct
            found[rng.randrange(HEADER_SIZE, len(found))] ^= 1 << rng.randrange(8)
            batch.write_header(found, header)
        data += found
        starts.append(len(data))
        offset += max(header.last_offset_delta, 0) + 1 + rng.choice((0, 0, 3))
    return data, starts


@pytest.mark.parametrize("seeds", range(20))
def test_twins_take_runs_of_batches_alike(seeds: int) -> None:
    for seed in range(40 * seeds, 40 * seeds + 40):
        print(f"seed {seed}")
        rng = random.Random(seed)
        data, starts = some_batches(rng)
        start = rng.choice((0, 0, rng.choice(starts)))
        stop = rng.choice((len(data), len(data), rng.randrange(start, len(data) + 1)))
        run = pure.Run(
            data, start, stop, rng.choice((0, 0, 2)), rng.choice((1 << 60, 60)), rng.choice((0, 30, 1 << 60))
        )
        capacity = rng.choice((3, 100))
        known = [
            (rng.choice((b"", b"k1", b"long" * 40)), rng.randrange(300)) for _ in range(rng.randrange(4))
        ]
        last_records = {
            rng.randrange(4): (rng.choice((None, rng.randrange(90))), rng.randrange(2))
            for _ in range(rng.randrange(4))
        }
        committed_before = [rng.randrange(4) for _ in range(rng.randrange(3))]
        up_to_offset, interval_bytes = rng.choice((1 << 40, 20)), rng.choice((0, 100, 700))
        start_offset = rng.choice((0, 0, 9))
        found = []
        for kernel in KERNELS.values():
            offsets = kernel.OffsetMap(capacity, capacity, SECRET)
            for key, offset in known:
                offsets.put(key, offset)
            committed = kernel.ProducerIds()
            for producer_id in committed_before:
                committed.add(producer_id)
            runs = kernel.RunFilter(
                offsets,
                last_records,
                committed,
                now_ms=1_700_000_000_003,
                new_horizon_ms=1_700_000_000_009,
                up_to_offset=up_to_offset,
            )
            marks = kernel.IndexMarks(0, interval_bytes)
            outcome: list[object] = []
            for _ in range(2):
                outcome += [runs.filter(run, marks), marks.take_entries()]
                outcome += [producer_id in committed for producer_id in range(4)]
                outcome += [marks.size, marks.largest_timestamp, marks.largest_timestamp_offset]
                outcome += [kernel.index_run(offsets, run, start_offset), len(offsets), offsets.latest_offset]
            found.append(outcome)
        assert all(outcome == found[0] for outcome in found)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_sets_of_producer_ids(kernel: ModuleType) -> None:
    for seed in range(20):
        print(f"seed {seed}")
        rng = random.Random(seed)
        ids, want = kernel.ProducerIds(), set()
        some = [rng.choice((rng.randrange(40), rng.getrandbits(62))) for _ in range(rng.choice((5, 300)))]
        for _ in range(1000):
            one = rng.choice(some)
            if rng.random() < 0.5:
                ids.add(one)
                want.add(one)
            else:
                ids.discard(one)
                want.discard(one)
            assert len(ids) == len(want)
        assert [one for one in some if one in ids] == [one for one in some if one in want]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_a_run_ends_before_what_is_not_plain(kernel: ModuleType) -> None:
    pairs = [
        encode_batch([Record(0, 5, b"k%d" % (i % 2), b"%d" % i)], i, producer_id=9, transactional=i == 4)
        for i in range(6)
    ]
    data = b"".join(pairs)
    offsets = kernel.OffsetMap(10, 10, SECRET)
    run = kernel.Run(data, 0, len(data), 0, 100, 4)
    assert kernel.index_run(offsets, run, 0) == (4 * len(pairs[0]), 4)
    assert (offsets.latest_offset, offsets.get(b"k0"), offsets.get(b"k1")) == (3, 2, 3)
    committed = kernel.ProducerIds()
    runs = kernel.RunFilter(offsets, {}, committed, now_ms=0, new_horizon_ms=0, up_to_offset=0)
    marks = kernel.IndexMarks(0, 0)
    assert runs.filter(run, marks) == (pairs[2] + pairs[3], 4 * len(pairs[0]), 4, 4, 2, 0)
    assert marks.take_entries() == [(3, len(pairs[2]), 5, 2)]
    assert 9 not in committed
    assert runs.filter(run._replace(committed_below=5), marks).position == len(data)
    assert 9 in committed
    assert kernel.index_run(offsets, run._replace(start=len(pairs[0]), lowest_offset=2), 0)[0] == len(
        pairs[0]
    )
    damaged = bytearray(data)
    damaged[2 * len(pairs[0]) - 1] ^= 1
    assert kernel.index_run(offsets, run._replace(window=damaged), 0) == (len(pairs[0]), 1)
    assert kernel.index_run(offsets, run._replace(stop=2 * len(pairs[0]) - 1), 0) == (len(pairs[0]), 1)
