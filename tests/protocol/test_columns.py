"""The column kernels: the compiled one and its twin give the same columns, bytes and refusals."""

import os
import subprocess
import sys
from array import array
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_samples import (
    JAVA_LEGACY,
    JAVA_RECORDS,
    JAVA_V2,
    mutations,
    record_lists,
)

from penstock.protocol import batch, columns
from penstock.protocol.batch import CorruptBatch, MalformedRecords
from penstock.protocol.columns import (
    BinaryColumn,
    HeadersColumn,
    RecordColumns,
    RowColumns,
    TimestampColumn,
    decode_columns,
    encode_batches,
)
from penstock.protocol.compression import Codec
from penstock.protocol.kernels import pure
from penstock.protocol.murmur2 import partition_for_key
from penstock.protocol.records import (
    ControlRecordType,
    Record,
    decode_batch,
    decode_batches,
    encode_batch,
    encode_control_batch,
)

KERNELS: dict[str, ModuleType] = {"pure": pure}
if columns.IMPLEMENTATION == "compiled":
    from penstock.protocol.kernels import compiled

    KERNELS["compiled"] = compiled

NOW_MS = 1_700_000_000_000


@pytest.fixture(params=["pure", "compiled"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if request.param not in KERNELS:
        pytest.skip("the compiled kernel was not built: no C compiler when the package was installed")
    monkeypatch.setattr(columns, "kernel", KERNELS[request.param])
    return KERNELS[request.param]


def with_kernel(kernel: ModuleType, function, *args, **kwargs):
    """Call the function with this kernel; under Hypothesis a fixture would last for all examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "kernel", kernel)
        return function(*args, **kwargs)


def outcome(kernel: ModuleType, function, *args, **kwargs):
    """The result, or the type of the refusal."""
    try:
        return with_kernel(kernel, function, *args, **kwargs)
    except (CorruptBatch, MalformedRecords, ValueError) as error:
        return type(error)


# --- Arrow in and out ---------------------------------------------------------------------------------------


def arrow_binary(column: BinaryColumn, rows: int, kind: pa.DataType) -> pa.Array:
    buffers = [None if b is None else pa.py_buffer(b) for b in (column.validity, column.offsets, column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def arrow_table(found: RecordColumns) -> pa.Table:
    """The columns as Arrow takes them, validated in full."""

    def fixed(data: bytes, kind: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(kind, found.rows, [None, pa.py_buffer(data)])

    arrays = {
        "offset": fixed(found.offset, pa.int64()),
        "timestamp": fixed(found.timestamp, pa.int64()),
        "timestamp_type": fixed(found.timestamp_type, pa.int32()),
        "key": arrow_binary(found.key, found.rows, pa.binary()),
        "value": arrow_binary(found.value, found.rows, pa.binary()),
    }
    if found.headers is not None:
        lists = array("i", bytes(found.headers.offsets))
        keys = arrow_binary(found.headers.keys, lists[-1], pa.utf8())
        values = arrow_binary(found.headers.values, lists[-1], pa.binary())
        structs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
        arrays["headers"] = pa.ListArray.from_arrays(pa.array(lists, pa.int32()), structs)
    table = pa.table(arrays)
    table.validate(full=True)
    return table


def rows_of(found: RecordColumns) -> list[Record]:
    return [
        Record(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((h["key"], h["value"]) for h in row.get("headers", ())),
        )
        for row in arrow_table(found).to_pylist()
    ]


def column_of(array_: pa.Array) -> BinaryColumn:
    validity, offsets, data = array_.buffers()
    empty = b"" if data is None else data
    return BinaryColumn(offsets, empty, validity, array_.offset)


def row_columns(rows: list[Record], lead: int = 0) -> RowColumns:
    """The rows as Arrow columns; `lead` rows stand before them in the buffers, as in a slice."""
    padded = [Record(0, 7, b"lead", b"lead", (("lead", b"lead"),))] * lead + rows
    keys = pa.array([row.key for row in padded], pa.binary())[lead:]
    values = pa.array([row.value for row in padded], pa.binary())[lead:]
    times = pa.array([row.timestamp for row in padded], pa.int64())[lead:]
    header_type = pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))
    lists = pa.array([[{"key": k, "value": v} for k, v in row.headers] for row in padded], header_type)[lead:]
    entries = lists.values
    return RowColumns(
        rows=len(rows),
        key=column_of(keys),
        value=column_of(values),
        timestamp=TimestampColumn(times.buffers()[1], times.buffers()[0], times.offset),
        headers=HeadersColumn(
            lists.buffers()[1],
            column_of(entries.field("key")),
            column_of(entries.field("value")),
            lists.buffers()[0],
            lists.offset,
        ),
    )


# --- decode -------------------------------------------------------------------------------------------------

batch_lists = st.lists(st.tuples(record_lists, st.sampled_from(Codec), st.integers(0, 3)), max_size=4)


def consecutive(batches: list[tuple[list[Record], Codec, int]]) -> bytes:
    """Encode batches one after another, with gaps between their offsets."""
    out, offset = b"", 0
    for rows, codec, gap in batches:
        out += encode_batch(rows, offset + gap, codec)
        offset += gap + len(rows)
    return out


@pytest.mark.parametrize("name", KERNELS)
@given(batches=batch_lists, start=st.integers(0, 30), length=st.integers(0, 30))
def test_columns_hold_the_records_wanted(
    name: str, batches: list[tuple[list[Record], Codec, int]], start: int, length: int
) -> None:
    data = consecutive(batches)
    found = with_kernel(KERNELS[name], decode_columns, data, start, start + length, include_headers=True)
    expected = [record for record in decode_batches(data) if start <= record.offset < start + length]
    assert rows_of(found) == expected
    last = max((header.next_offset for _, header in batch.iter_headers(data)), default=0)
    assert start <= found.next_offset <= start + length
    assert found.next_offset >= min(last, start + length) or not expected


@pytest.mark.parametrize("name", KERNELS)
@given(batches=batch_lists, data=st.data())
def test_a_partial_batch_at_the_end_is_left_out(
    name: str, batches: list[tuple[list[Record], Codec, int]], data: st.DataObject
) -> None:
    whole = consecutive(batches)
    cut = data.draw(st.integers(0, len(whole)))
    found = with_kernel(KERNELS[name], decode_columns, whole[:cut], include_headers=True)
    expected = list(decode_batches(whole[:cut]))
    assert rows_of(found) == expected
    assert found.next_offset == (expected[-1].offset + 1 if expected else 0)


@pytest.mark.parametrize("name", KERNELS)
@given(
    batches=batch_lists,
    start=st.integers(0, 30),
    length=st.integers(0, 60),
    stop_at_rows=st.integers(0, 20),
    stop_at_bytes=st.integers(0, 100),
)
def test_parts_together_are_the_whole(
    name: str,
    batches: list[tuple[list[Record], Codec, int]],
    start: int,
    length: int,
    stop_at_rows: int,
    stop_at_bytes: int,
) -> None:
    """Repeated reads from `end_position`, each with a limit, end where one read of all does."""
    data = consecutive(batches)
    end = start + length
    whole = with_kernel(KERNELS[name], decode_columns, data, start, end, include_headers=True)
    assert whole.end_position == len(data)
    rows, position, next_offset = [], 0, start
    largest = max((header.count for _, header in batch.iter_headers(data)), default=0)
    while position < len(data):
        part = with_kernel(
            KERNELS[name],
            decode_columns,
            data[position:],
            start,
            end,
            include_headers=True,
            stop_at_rows=stop_at_rows,
            stop_at_bytes=stop_at_bytes,
        )
        assert part.end_position > 0, "it always gets further"
        assert part.rows <= max(stop_at_rows, largest)
        rows += rows_of(part)
        position += part.end_position
        next_offset = max(next_offset, part.next_offset)
    assert rows == rows_of(whole)
    assert next_offset == whole.next_offset


@pytest.mark.skipif(len(KERNELS) < 2, reason="the compiled kernel was not built")
@settings(max_examples=2 * settings.default.max_examples)
@given(batches=batch_lists, data=st.data(), check_crc=st.booleans())
def test_twins_agree_on_damage_among_many_batches(
    batches: list[tuple[list[Record], Codec, int]], data: st.DataObject, check_crc: bool
) -> None:
    whole = consecutive([(rows, Codec.NONE, gap) for rows, _, gap in batches])
    damaged = data.draw(mutations(whole)) if whole else whole
    limits = {"stop_at_rows": data.draw(st.integers(0, 40)), "stop_at_bytes": data.draw(st.integers(0, 300))}
    found = [
        outcome(kernel, decode_columns, damaged, 2, 40, include_headers=True, check_crc=check_crc, **limits)
        for kernel in KERNELS.values()
    ]
    if isinstance(found[0], type) or isinstance(found[1], type):
        assert found[0] == found[1]
    else:
        parts = [(rows_of(part), part.next_offset, part.end_position) for part in found]
        assert parts[0] == parts[1]


def test_next_offset_covers_control_batches_and_gaps(kernel: ModuleType) -> None:
    marker = encode_control_batch([(ControlRecordType.COMMIT, b"\x00" * 6)], timestamp=1, base_offset=3)
    compacted = encode_batch([Record(10, 1, b"k", None), Record(17, 1, b"l", None)], 4, keep_offsets=True)
    data = encode_batch([Record(0, 1, b"a", b"b")] * 3) + marker + compacted
    assert [r.offset for r in rows_of(decode_columns(data))] == [0, 1, 2, 10, 17]
    assert decode_columns(data).next_offset == 18
    assert decode_columns(data[: -len(compacted)]).next_offset == 4
    assert decode_columns(data, 11).rows == 1
    assert decode_columns(data, 3, 5).next_offset == 5
    assert decode_columns(data, 0, 2).next_offset == 2
    assert decode_columns(data, 100).next_offset == 100
    assert decode_columns(b"", 42).next_offset == 42


def test_log_append_time_fills_the_timestamps(kernel: ModuleType) -> None:
    rows = [Record(0, 5, None, b"v"), Record(0, 9, None, b"v")]
    found = decode_columns(encode_batch(rows, timestamp_type=batch.LOG_APPEND_TIME))
    table = arrow_table(found)
    assert table["timestamp"].to_pylist() == [9, 9]
    assert table["timestamp_type"].to_pylist() == [1, 1]


@pytest.mark.parametrize("codec", JAVA_V2)
def test_kafkas_own_batches(kernel: ModuleType, codec: str) -> None:
    assert rows_of(decode_columns(JAVA_V2[codec], include_headers=True)) == JAVA_RECORDS


@pytest.mark.parametrize(("magic", "codec"), JAVA_LEGACY)
def test_old_messages(kernel: ModuleType, magic: int, codec: str) -> None:
    data = JAVA_LEGACY[magic, codec]
    found = decode_columns(data, 101, include_headers=True)
    assert rows_of(found) == [record for record in decode_batches(data) if record.offset >= 101]
    assert arrow_table(found)["timestamp_type"].to_pylist() == [0 if magic == 1 else -1] * 2
    assert found.next_offset == 103
    assert [row.offset for row in rows_of(decode_columns(data, 100, 102))] == [100, 101]


def test_without_headers_they_are_left_out(kernel: ModuleType) -> None:
    found = decode_columns(JAVA_V2["none"])
    assert found.headers is None
    assert rows_of(found) == [record._replace(headers=()) for record in JAVA_RECORDS]


def test_columns_that_are_not_wanted_are_left_out(kernel: ModuleType) -> None:
    data = encode_batch([Record(0, 1, b"k", b"v"), Record(0, 2, None, b"w")]) + JAVA_LEGACY[1, "none"]
    whole = decode_columns(data)
    keys, values = decode_columns(data, include_values=False), decode_columns(data, include_keys=False)
    assert (keys.key, keys.value, values.key, values.value) == (whole.key, None, None, whole.value)
    neither = decode_columns(data, include_keys=False, include_values=False)
    assert (neither.rows, neither.offset, neither.timestamp) == (whole.rows, whole.offset, whole.timestamp)


def test_no_nulls_means_no_bitmap(kernel: ModuleType) -> None:
    found = decode_columns(encode_batch([Record(0, 1, b"k", None)]))
    assert found.key.validity is None
    assert found.key.null_count == 0
    assert found.value.null_count == 1


def test_many_batches_grow_the_columns(kernel: ModuleType) -> None:
    rows = [Record(0, NOW_MS, b"k%d" % n, b"v" * (n % 50), (("h", b"x"),)) for n in range(37)]
    data = bytearray()
    for number in range(60):
        data += encode_batch(rows, number * 37)
    found = decode_columns(data, include_headers=True)
    assert rows_of(found) == list(decode_batches(data))
    assert found.next_offset == 60 * 37


def test_header_keys_become_valid_utf8(kernel: ModuleType) -> None:
    good = encode_batch([Record(0, 1, b"k", b"v", (("ab", b"x"), ("é", None)))])
    bad = bytearray(good.replace(b"\x04ab", b"\x04\xff\xc3"))
    batch.write_header(bad, batch.parse_header(bad))
    found = decode_columns(good + bad, include_headers=True, check_crc=True)
    assert [row.headers for row in rows_of(found)] == [
        (("ab", b"x"), ("é", None)),
        (("\ufffd\ufffd", b"x"), ("é", None)),
    ]


def test_checksums_are_checked_unless_told_otherwise(kernel: ModuleType) -> None:
    data = bytearray(encode_batch([Record(0, 1, b"k", b"value")]))
    data[-2] ^= 1
    with pytest.raises(CorruptBatch, match="base offset 0"):
        decode_columns(data)
    assert decode_columns(data, check_crc=False).rows == 1


@pytest.mark.parametrize(
    "change",
    [
        {"count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"count": 1, "last_offset_delta": 0},
        {"count": 3},
        {"count": -1},
        {"last_offset_delta": -1},
        {"last_offset_delta": 0},
        {"base_offset": -1},
        {"base_offset": 2**63 - 2},
        {"attributes": 7},
        {"attributes": 4},
    ],
)
def test_headers_that_lie_are_refused(kernel: ModuleType, change: dict[str, int]) -> None:
    data = bytearray(encode_batch([Record(0, 1, b"k", b"value")] * 2))
    batch.write_header(data, batch.parse_header(data)._replace(**change))
    with pytest.raises((MalformedRecords, CorruptBatch)):
        decode_columns(data, -5)


@pytest.mark.skipif(len(KERNELS) < 2, reason="the compiled kernel was not built")
@settings(max_examples=2 * settings.default.max_examples)
@given(rows=record_lists, data=st.data(), headers=st.booleans())
def test_twins_agree_on_damaged_records(rows: list[Record], data: st.DataObject, headers: bool) -> None:
    good = encode_batch(rows)
    payload = data.draw(mutations(good[batch.HEADER_SIZE :]))
    damaged = bytearray(good[: batch.HEADER_SIZE]) + payload
    batch.write_header(damaged, batch.parse_header(good))
    found = [outcome(kernel, decode_columns, damaged, include_headers=headers) for kernel in KERNELS.values()]
    assert found[0] == found[1]


@pytest.mark.skipif(len(KERNELS) < 2, reason="the compiled kernel was not built")
@settings(max_examples=2 * settings.default.max_examples)
@given(payload=st.binary(min_size=7, max_size=60), count=st.integers(1, 4))
def test_twins_agree_on_noise(payload: bytes, count: int) -> None:
    header = batch.parse_header(encode_batch([Record(0, 0, None, None)]))
    header = header._replace(count=count, last_offset_delta=200)
    found = []
    for kernel in KERNELS.values():
        builder = kernel.ColumnBuilder(True)
        try:
            builder.append_payload(payload, header, 0, 1000)
        except MalformedRecords:
            assert builder.rows == 0
        found.append((builder.rows, builder.finish()))
    assert found[0] == found[1]


def test_a_refused_batch_leaves_the_columns_as_they_were(kernel: ModuleType) -> None:
    good = encode_batch([Record(0, 1, b"k", None, (("h", b"v"),)), Record(0, 2, None, b"v")])
    header, payload = batch.parse_header(good), good[batch.HEADER_SIZE :]
    broken = payload[:-1] + b"\x02"
    builder, expected = kernel.ColumnBuilder(True), kernel.ColumnBuilder(True)
    for part in (payload, broken, payload):
        if part is broken:
            with pytest.raises(MalformedRecords, match="record 1 of 2 after base offset 0"):
                builder.append_payload(part, header, 0, 10)
        else:
            builder.append_payload(part, header, 0, 10)
            expected.append_payload(part, header, 0, 10)
    assert builder.finish() == expected.finish()


# --- encode -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
@given(rows=record_lists, lead=st.integers(0, 9), codec=st.sampled_from(Codec))
def test_rows_become_the_batch_the_record_codec_writes(
    name: str, rows: list[Record], lead: int, codec: Codec
) -> None:
    source = row_columns(rows, lead)
    (data,) = with_kernel(
        KERNELS[name], lambda: list(encode_batches(source, default_timestamp=0, compression=codec))
    )
    assert data == encode_batch(rows, compression=codec)


@pytest.mark.parametrize("name", KERNELS)
@given(rows=record_lists, limit=st.integers(61, 1000), data=st.data())
def test_batches_keep_to_their_size_and_rows_to_their_order(
    name: str, rows: list[Record], limit: int, data: st.DataObject
) -> None:
    picked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20))
    batches = with_kernel(
        KERNELS[name],
        lambda: list(
            encode_batches(
                row_columns(rows),
                default_timestamp=0,
                indices=array("q", picked),
                max_batch_bytes=limit,
                producer_id=4,
                producer_epoch=1,
                base_sequence=2**31 - 3,
                transactional=True,
            )
        ),
    )
    headers = [header for data_ in batches for header in batch.validate(memoryview(data_))]
    assert all(
        len(data_) <= limit or header.count == 1 for data_, header in zip(batches, headers, strict=True)
    )
    written = [record for data_ in batches for record in decode_batch(data_)]
    assert [record._replace(offset=0) for record in written] == [rows[index] for index in picked]
    sequence = 2**31 - 3
    for header in headers:
        assert header.base_sequence == sequence
        sequence = batch.increment_sequence(sequence, header.count)


@pytest.mark.skipif(len(KERNELS) < 2, reason="the compiled kernel was not built")
@settings(max_examples=2 * settings.default.max_examples)
@given(
    offsets=st.lists(st.integers(-3, 12), min_size=1, max_size=6),
    validity=st.one_of(st.none(), st.binary(max_size=1)),
    first=st.integers(-1, 3),
    lists=st.lists(st.integers(-1, 5), min_size=1, max_size=6),
    picked=st.lists(st.integers(-1, 6), max_size=4),
)
def test_twins_agree_on_columns_that_lie(
    offsets: list[int], validity: bytes | None, first: int, lists: list[int], picked: list[int]
) -> None:
    column = BinaryColumn(array("i", offsets), b"0123456789", validity, first)
    headers = HeadersColumn(array("i", lists), column, column, validity, first)
    source = RowColumns(5, column, column, TimestampColumn(array("q", [1, 2, 3]), validity, first), headers)
    options = {"default_timestamp": 9, "indices": array("q", picked), "max_batch_bytes": 80}
    pure, compiled = (
        outcome(kernel, lambda: list(encode_batches(source, **options))) for kernel in KERNELS.values()
    )
    assert pure == compiled


def test_absent_columns_are_null_and_time_is_the_default(kernel: ModuleType) -> None:
    (data,) = encode_batches(RowColumns(2), default_timestamp=77)
    assert list(decode_batch(data)) == [Record(0, 77, None, None), Record(1, 77, None, None)]
    times = pa.array([5, None], pa.int64())
    column = TimestampColumn(times.buffers()[1], times.buffers()[0])
    (data,) = encode_batches(RowColumns(2, timestamp=column), default_timestamp=77)
    assert [record.timestamp for record in decode_batch(data)] == [5, 77]


def test_a_range_of_rows(kernel: ModuleType) -> None:
    rows = [Record(0, n, b"%d" % n, None) for n in range(10)]
    (data,) = encode_batches(row_columns(rows), default_timestamp=0, start=3, stop=6)
    assert [record.key for record in decode_batch(data)] == [b"3", b"4", b"5"]
    assert list(encode_batches(row_columns(rows), default_timestamp=0, start=6, stop=6)) == []
    with pytest.raises(ValueError, match="row"):
        list(encode_batches(row_columns(rows), default_timestamp=0, start=8, stop=12))


@pytest.mark.parametrize("limit", [0, 60, 2**31])
def test_impossible_batch_sizes_are_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="is not a valid size for a batch"):
        list(encode_batches(RowColumns(1), default_timestamp=0, max_batch_bytes=limit))


# --- partitions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
@given(
    keys=st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=20),
    partitions=st.integers(1, 2**31 - 1),
)
def test_keys_choose_kafkas_partitions(name: str, keys: list[bytes | None], partitions: int) -> None:
    column = column_of(pa.array(keys, pa.binary()))
    chosen = array("i", bytes(KERNELS[name].partition_keys(column, 0, len(keys), partitions)))
    assert list(chosen) == [-1 if key is None else partition_for_key(key, partitions) for key in keys]


@pytest.mark.parametrize("name", KERNELS)
@given(ids=st.lists(st.integers(0, 6), max_size=50), first_row=st.integers(0, 1000))
def test_rows_are_split_in_order(name: str, ids: list[int], first_row: int) -> None:
    indices, starts = KERNELS[name].split_rows(array("i", ids), 7, first_row)
    rows = array("q", bytes(indices))
    for partition in range(7):
        expected = [first_row + row for row, chosen in enumerate(ids) if chosen == partition]
        assert list(rows[starts[partition] : starts[partition + 1]]) == expected
    assert starts[7] == len(ids)


def test_group_by_partition_names_those_with_rows() -> None:
    groups = {
        partition: list(rows.cast("q"))
        for partition, rows in columns.group_by_partition(array("i", [2, 0, 2]), 4)
    }
    assert groups == {0: [1], 2: [0, 2]}


def test_bad_partitions_are_refused(kernel: ModuleType) -> None:
    column = column_of(pa.array([b"k"], pa.binary()))
    for start, stop, partitions in ((0, 1, 0), (1, 0, 3), (0, 2, 3), (-1, 1, 3)):
        with pytest.raises(ValueError, match=r"row|partitions"):
            kernel.partition_keys(column, start, stop, partitions)
    for ids in ([-1], [3]):
        with pytest.raises(ValueError, match="partition"):
            kernel.split_rows(array("i", ids), 3)


# --- inspecting produced batches ----------------------------------------------------------------------------


def test_a_batch_that_compaction_emptied_has_no_rows(kernel: ModuleType) -> None:
    data = bytearray(encode_batch([Record(0, 1, b"k", b"v")])[: batch.HEADER_SIZE])
    batch.write_header(data, batch.parse_header(data)._replace(count=0))
    found = decode_columns(data)
    assert (found.rows, found.next_offset) == (0, 1)


def test_the_fallback_can_be_chosen() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "from penstock.protocol.columns import IMPLEMENTATION as i; print(i)"],
        env=os.environ | {"PENSTOCK_PURE_PYTHON": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "pure"
