"""The proof: three computations of the same result, compared row for row.

The stream's result as an ordinary consumer finds it in the topic, Spark's batch result over the same
topics, and pandas over the original frames. Equal means equal: same rows, integers, texts, and the same
64-bit means.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.spark.flights.pipeline import Source, Tables, delay_records
from penstock.spark.flights.topics import LOG_LEVEL_CRITICAL

if TYPE_CHECKING:
    import pandas as pd

KEY = ["hour", "origin", "carrier"]
COLUMN_TYPES = {
    "airport": "string",
    "airline": "string",
    "flights": "Int64",
    "cancelled": "Int64",
    "delayed": "Int64",
    "delay_sum": "Int64",
    "delay_mean": "Float64",
    "delay_max": "Int64",
    "worst_flight": "Int64",
    "worst_destination": "string",
    "seats": "Int64",
    "bad_weather": "Int64",
}
READ_TIMEOUT_S = 60.0
DIFFERENCES_SHOWN_MAX = 20


@dataclass(slots=True)
class Comparison:
    """How one result differs from another; equal if nothing is listed."""

    left: str
    right: str
    rows: int
    differences: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not self.differences


def stream_result(bootstrap_servers: str, topic: str) -> pd.DataFrame:
    """Read the whole delays topic with a plain consumer."""
    return result_frame(read_values(bootstrap_servers, topic))


def batch_result(source: Source, tables: Tables) -> pd.DataFrame:
    """Run the same transformations as one batch over everything in the flights topic."""
    records = delay_records(source.batch(source.topics.flights), tables)
    return result_frame(records.toArrow()["value"].to_pylist())


def read_values(bootstrap_servers: str, topic: str) -> Iterator[bytes]:
    """Yield the values of all records that are in `topic` now, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL_CRITICAL,
            "group.id": "penstock-demo",
            "enable.auto.commit": False,
        }
    )
    try:
        for partition in consumer.list_topics(topic, READ_TIMEOUT_S).topics[topic].partitions:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), READ_TIMEOUT_S)
            consumer.assign([TopicPartition(topic, partition, start)])
            yield from _read_partition(consumer, start, end)
    finally:
        consumer.close()


def _read_partition(consumer: Consumer, position: int, end: int) -> Iterator[bytes]:
    while position < end:
        messages = consumer.consume(min(10_000, end - position), READ_TIMEOUT_S)
        if not messages:
            raise TimeoutError(f"no record at offset {position} of {end} within {READ_TIMEOUT_S:g} s")
        for message in messages:
            value, offset = message.value(), message.offset()
            if value is None or offset is None:
                raise KafkaException(message.error())
            yield value
            position = offset + 1


def result_frame(values: Iterable[bytes]) -> pd.DataFrame:
    """Parse the JSON values of the delays topic into one comparable frame."""
    import pandas as pd

    return comparable(pd.DataFrame.from_records([json.loads(value) for value in values]))


def comparable(frame: pd.DataFrame) -> pd.DataFrame:
    """Index by key in order, with one type a column wherever the frame came from.

    A result without rows has no columns either; it becomes a frame of no rows.
    """
    columns = [*KEY, *COLUMN_TYPES]
    typed = frame.reindex(columns=columns).astype({**dict.fromkeys(KEY, "string"), **COLUMN_TYPES})
    return typed.set_index(KEY).sort_index()


def compare(left_name: str, left: pd.DataFrame, right_name: str, right: pd.DataFrame) -> Comparison:
    """Compare two results made `comparable`; a repeated key is a difference too."""
    comparison = Comparison(left_name, right_name, rows=len(left))
    for name, frame in ((left_name, left), (right_name, right)):
        repeated = frame.index[frame.index.duplicated()]
        comparison.differences += [f"{_key(key)}: more than once in {name}" for key in repeated]
    comparison.differences += [
        f"{_key(key)}: not in {right_name}" for key in left.index.difference(right.index)
    ]
    comparison.differences += [
        f"{_key(key)}: not in {left_name}" for key in right.index.difference(left.index)
    ]
    if comparison.equal:
        comparison.differences += _unequal_values(left_name, left, right_name, right)
    return comparison


def _unequal_values(
    left_name: str, left: pd.DataFrame, right_name: str, right: pd.DataFrame
) -> Iterator[str]:
    for column in COLUMN_TYPES:
        ours, theirs = left[column], right[column]
        unequal = (ours.isna() != theirs.isna()) | (ours != theirs).fillna(False)
        for key in left.index[unequal]:
            yield f"{_key(key)}: {column} is {ours[key]} in {left_name}, {theirs[key]} in {right_name}"


def _key(key: tuple[str, str, str]) -> str:
    return " ".join(key)
