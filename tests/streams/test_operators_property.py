"""Windows and joins against an interpreter that takes one record at a time, for random records and batches.

The engine runs as it does behind a query: batch by batch, each batch sorted by time within its task. New
tasks run each batch; they know only the state that the previous ones saved.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import answer

from operator_topologies import application
from penstock.protocol.murmur2 import partition_for_key
from penstock.streams import string
from penstock.topology.records import Input
from penstock.topology.stores.ordered_bytes import OrderedBytes
from penstock.topology.tasks.task import Task
from reference_interpreter import INTERPRETERS, Row, Sent, foreign_join

PARTITIONS = 2
Batches = list[list[Row]]

values = st.integers(0, 99).map(str)
steps = st.sampled_from([0, 0, 1, 1, 2, 3, 5, 11, 16, 40])
backwards = st.sampled_from([0, 0, 0, 1, 3, 6, 10, 14, 25])


@st.composite
def batches_of(
    draw: st.DrawFn, keys: st.SearchStrategy[str | None], nullable: bool, foreign: bool = False
) -> Batches:
    """Records in the order in which they were written, cut into batches."""
    now_ms = draw(st.sampled_from([0, 3, 50]))
    batches: Batches = [[]]
    for step, back in draw(st.lists(st.tuples(steps, backwards), max_size=30)):
        now_ms += step
        topic = draw(st.sampled_from(["left", "right"]))
        value: str | None = draw(values)
        key = draw(keys)
        if foreign:
            key = draw(st.sampled_from("abcd")) if topic == "right" else key
            value = f"{draw(st.sampled_from('abcx'))}:{value}"
        if nullable and draw(st.integers(0, 3)) == 0:
            value = None
        if draw(st.integers(0, 4)) == 0:
            batches.append([])
        batches[-1].append((topic, key, value, max(0, now_ms - back)))
    return batches


def partition_of(key: str | None) -> int:
    return 0 if key is None else partition_for_key(key.encode(), PARTITIONS)


def in_task_order(batch: list[Row]) -> list[Row]:
    """Sort by time and topic; the records of one topic with one time keep their order."""
    return sorted(batch, key=lambda row: (row[3], row[0]))


def run(name: str, batches: Batches) -> dict[int, list[Sent]]:
    """The records that the engine sends from each partition's tasks."""
    topology = application(name).topology()
    parts = topology.source_topics()
    read = {topic: PARTITIONS for topic in ("left", "right") if topic in parts}
    counts = {"out": PARTITIONS, **topology.partition_counts(read)}
    saved: dict[tuple[int, int], dict[str, dict[bytes, bytes]]] = {}
    ends: Counter[tuple[str, int]] = Counter()
    sent: dict[int, list[Sent]] = {partition: [] for partition in range(PARTITIONS)}
    pending: list[Input] = []

    def written(topic: str, partition: int, row: tuple[bytes | None, bytes | None, int]) -> Input:
        offset = ends[topic, partition]
        ends[topic, partition] += 1
        key, value, timestamp_ms = row
        return topic, partition, offset, timestamp_ms, key, value, ()

    todo = [*batches, []]
    while todo or pending:
        batch = todo.pop(0) if todo else []
        inputs, pending = pending, []
        for topic, key, value, timestamp_ms in batch:
            if topic in read:
                row = string_bytes(key), string_bytes(value), timestamp_ms
                inputs.append(written(topic, partition_of(key), row))
        for part in topology.sub_topologies:
            for partition in range(PARTITIONS):
                mine = [row for row in inputs if parts[row[0]] is part or parts[row[0]].id == part.id]
                mine = [row for row in mine if row[1] == partition]
                states = saved.setdefault((part.id, partition), {})
                task = Task(topology, part, partition, partition_counts=counts, stores=restored(part, states))
                task.process_all(as_tasks_take(mine, read))
                task.tick(wall_clock_ms=1)
                for store, delta in task.take_deltas().items():
                    for key_bytes, value_bytes in delta.items():
                        if value_bytes is None:
                            states.get(store, {}).pop(key_bytes, None)
                        else:
                            states.setdefault(store, {})[key_bytes] = value_bytes
                for topic, to, key_bytes, value_bytes, timestamp_ms, _ in task.take_outputs():
                    if topic == "out":
                        sent[partition].append((text(key_bytes), text(value_bytes), timestamp_ms))
                        continue
                    target = to
                    if target is None:
                        assert key_bytes is not None
                        target = partition_for_key(key_bytes, PARTITIONS)
                    pending.append(written(topic, target, (key_bytes, value_bytes, timestamp_ms)))
    return sent


def as_tasks_take(rows: list[Input], outer: dict[str, int]) -> list[Input]:
    """Order ``outer`` topics like `in_task_order`.

    Records of other topics keep their order, as on Spark: by the greatest time of their partition so far.
    """
    latest: dict[tuple[str, int], int] = {}
    timed = []
    for row in sorted(rows, key=lambda row: row[:3]):
        topic, partition, offset, timestamp_ms = row[:4]
        if topic not in outer:
            timestamp_ms = latest[topic, partition] = max(timestamp_ms, latest.get((topic, partition), 0))
        timed.append(((timestamp_ms, topic, partition, offset), row))
    return [row for _, row in sorted(timed, key=lambda each: each[0])]


def restored(part: object, states: dict[str, dict[bytes, bytes]]) -> dict[str, OrderedBytes]:
    """New maps with the saved state."""
    maps: dict[str, OrderedBytes] = {"$clocks": OrderedBytes()}
    maps.update((spec.name, spec.new_map()) for spec in part.stores)  # type: ignore[attr-defined]
    for name, entries in states.items():
        maps[name].apply(entries.items())
    return maps


def string_bytes(value: str | None) -> bytes | None:
    return None if value is None else string.serialize(value)


def text(data: bytes | None) -> str | None:
    return None if data is None else string.deserialize(data)


def interpreted(name: str, batches: Batches) -> dict[int, list[Sent]]:
    """The records that the oracle sends for each partition, one record at a time."""
    sent: dict[int, list[Sent]] = {}
    topics = {"left", "right"} & set(application(name).topology().source_topics())
    for partition in range(PARTITIONS):
        interpreter = INTERPRETERS[name]()
        sent[partition] = [
            result
            for batch in batches
            for row in in_task_order(batch)
            if row[0] in topics and partition_of(row[1]) == partition
            for result in interpreter(row)
        ]
    return sent


def table(sent: list[Sent]) -> dict[str | None, str]:
    """The last value of each key: the topic read as a table."""
    rows: dict[str | None, str] = {}
    for key, value, _ in sent:
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
    return rows


TABLES = ("table-inner", "table-left", "table-outer", "suppress-time", "suppress-rows")
STREAM_TABLES = ("stream-table", "stream-table-left", "stream-versioned", "stream-versioned-grace")
keys = st.sampled_from("abcd")
keys_or_none = st.one_of(keys, keys, keys, st.none())


@pytest.mark.parametrize("name", INTERPRETERS)
def test_the_engine_sends_what_the_interpreter_sends(name: str) -> None:
    nullable = name in TABLES or name in STREAM_TABLES

    @settings(max_examples=40)
    @given(batches_of(keys_or_none, nullable))
    def agree(batches: Batches) -> None:
        found, expected = run(name, batches), interpreted(name, batches)
        for partition in range(PARTITIONS):
            if name == "sliding-never-late":  # the order of one record's windows is undefined
                assert Counter(found[partition]) == Counter(expected[partition])
                assert table(found[partition]) == table(expected[partition])
            else:
                assert found[partition] == expected[partition]

    agree()


@pytest.mark.parametrize("name", ["foreign", "foreign-left"])
def test_a_foreign_key_join_ends_with_the_right_table(name: str) -> None:
    """A batch lies between request and response in its topics; interim results were true at some time."""

    @settings(max_examples=60)
    @given(batches_of(keys, nullable=True, foreign=True))
    def agree(batches: Batches) -> None:
        rows = [row for batch in batches for row in in_task_order(batch)]
        sent = [result for results in run(name, batches).values() for result in results]
        assert table(sent) == foreign_join(rows, left=name == "foreign-left")
        at_some_time = {(key, value) for key, value, _ in answer(name, rows)}
        assert {(key, value) for key, value, _ in sent} <= at_some_time | {(key, None) for key, _, _ in sent}

    agree()
