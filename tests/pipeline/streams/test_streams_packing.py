"""Blocks of records: they unpack to the same records, from lists and from Arrow, and damage is reported."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.arrow.layout import HEADERS
from penstock.spark.streams.blocks.layout import LAYOUT, block_of
from penstock.spark.streams.blocks.packing import (
    Binary,
    Block,
    DamagedBlock,
    Kind,
    Position,
    in_order,
    note_of,
    outputs_by_topic,
    tick,
)
from penstock.spark.streams.query.sink import Unpacking

BYTES = st.none() | st.binary(max_size=20)
HEADER_ROWS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)
ROWS = st.lists(
    st.tuples(st.integers(-1, 2**62), st.integers(0, 2**62), BYTES, BYTES, HEADER_ROWS, st.integers(0, 2)),
    max_size=12,
)


def block(rows: list, partitions: list[int] | None = None, note: str = "") -> Block:
    times, offsets, keys, values, headers, targets = zip(*rows, strict=True) if rows else ((),) * 6
    return Block(
        Kind.RECORDS,
        1234,
        "orders",
        3,
        ("a", "b", "ü"),
        np.array(times, np.int64),
        np.array(offsets, np.int64),
        Binary.of(keys),
        Binary.of(values),
        np.array(targets, np.uint16),
        None if partitions is None else np.array(partitions, np.int32),
        headers,
        note,
    )


@given(ROWS, st.booleans(), st.sampled_from(["", '{"t":{"0":1}}']))
def test_a_packed_block_comes_out_the_same(rows: list, with_partitions: bool, note: str) -> None:
    made = block(rows, list(range(len(rows))) if with_partitions else None, note)
    packed = made.pack()
    found = Block.unpack(packed)
    assert found.inputs() == [
        (("a", "b", "ü")[target], 3, offset, time, key, value, headers)
        for time, offset, key, value, headers, target in rows
    ]
    assert (found.kind, found.clock_ms, found.topic, found.note) == (Kind.RECORDS, 1234, "orders", note)
    assert note_of(packed) == note
    assert (None if found.partitions is None else found.partitions.tolist()) == (
        list(range(len(rows))) if with_partitions else None
    )


@given(ROWS.filter(bool), st.integers(1, 30))
def test_a_block_cut_short_is_named(rows: list, missing: int) -> None:
    packed = block(rows).pack()
    with pytest.raises(DamagedBlock, match=r"block|bytes"):
        Block.unpack(packed[:-missing])
    with pytest.raises(DamagedBlock, match="version"):
        Block.unpack(b"\x09" + packed[1:])


@given(ROWS, st.integers(0, 3))
def test_arrow_arrays_are_packed_as_lists_are(rows: list, first: int) -> None:
    rows = rows[first:] and rows
    if not rows[first:]:
        return
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([row[2] for row in rows], pa.binary()),
            pa.array([row[3] for row in rows], pa.binary()),
            pa.array(["orders"] * len(rows)),
            pa.array([3] * len(rows), pa.int32()),
            pa.array([row[1] for row in rows], pa.int64()),
            pa.array([row[0] for row in rows], pa.int64()).cast(pa.timestamp("ms", "UTC")),
            pa.array([[{"key": k, "value": v} for k, v in row[4]] or None for row in rows], HEADERS),
        ],
        schema=LAYOUT.schema,
    ).slice(first)
    found = Block.unpack(block_of(batch, Kind.RECORDS, 5).pack())
    assert found.inputs() == [("orders", 3, r[1], r[0], r[2], r[3], r[4]) for r in rows[first:]]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from("ab")), max_size=30),
    st.randoms(),
)
def test_blocks_in_any_order_give_one_order(read: list, rng: object) -> None:
    """The order is by greatest timestamp so far, topic, partition, offset, and order of creation."""
    blocks = []
    rows = []
    for partition in range(4):
        of_partition = [(time, target) for p, time, target in read if p == partition]
        for start in range(0, len(of_partition), 3):
            some = of_partition[start : start + 3]
            made = [
                (time, start + i // 2, b"%d" % i, None, (), "ab".index(t)) for i, (time, t) in enumerate(some)
            ]
            blocks.append(block(made)._replace(partition=partition))
        latest = accumulate((time for time, _ in of_partition), max)
        rows += [
            (now, partition, row, time)
            for row, (now, (time, _)) in enumerate(zip(latest, of_partition, strict=True))
        ]
    rng.shuffle(blocks)  # type: ignore[attr-defined]
    assert [(row[3], row[1], int(row[4])) for row in in_order(blocks)] == [
        (time, p, row % 3) for _, p, row, time in sorted(rows)
    ]


def test_rows_for_other_tasks_are_left_out() -> None:
    rows = [(1, 1, b"k", b"v", (), 0), (2, 2, None, b"w", (("h", b"x"),), 1), (3, 3, b"m", None, (), 2)]
    found = Block.unpack(block(rows).only({"b", "ü"}).pack())
    assert found.inputs() == [("b", 3, 2, 2, None, b"w", (("h", b"x"),)), ("ü", 3, 3, 3, b"m", None, ())]


def test_outputs_reach_the_sink_by_topic_in_their_order() -> None:
    outputs = [
        ("x", None, b"1", b"a", 10, ()),
        ("y", 4, None, b"b", 11, (("h", None),)),
        ("x", 2, b"2", None, 12, ()),
    ]
    blocks = outputs_by_topic(outputs, None, Position("t", 0, 7), 99)
    x, y = (found.to_pylist() for found in Unpacking(iter([*blocks, tick(0, 99)])).rows())
    assert [(r["topic"], r["partition"], r["key"], r["value"], r["headers"]) for r in x + y] == [
        ("x", None, b"1", b"a", None),
        ("x", 2, b"2", None, None),
        ("y", 4, None, b"b", [{"key": "h", "value": None}]),
    ]
    assert [r["timestamp"].timestamp() * 1000 for r in x + y] == [10, 12, 11]
