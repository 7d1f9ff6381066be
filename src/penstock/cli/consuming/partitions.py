"""Read partitions without a group, by this package's own client."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, NoReturn

from confluent_kafka import KafkaError

from penstock.cli.connection import EXIT_USAGE, CommandConfig, explain, fail, read_properties
from penstock.cli.consuming.limits import Limits
from penstock.cli.open_cluster import open_cluster, similar_topics
from penstock.cli.records.record import Consumed
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ServerError, UnknownPartition
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.reading.offsets import EARLIEST, LATEST, NO_OFFSET, list_offsets
from penstock.client.reading.tail import Arrived, Tail
from penstock.client.settings import ConfigError, from_properties
from penstock.protocol.batch import BatchHeader, CorruptBatch, MalformedRecords
from penstock.protocol.columns import BinaryColumn, HeadersColumn, RecordColumns, decode_columns

_POLL_S: Final = 0.2

_BYTES_PER_DECODING: Final = 4 << 20
"""Decode about this many bytes of keys and values at once, because compressed batches may hold gigabytes."""

_FETCH: Final = {"max.partition.fetch.bytes": str(1 << 20), "fetch.max.wait.ms": "500"}
"""Defaults of Kafka's consumer: the readers of whole topics have larger ones."""

OnDamage = Callable[[str], None]
"""Receives the place of a batch of which no record can be read, and the reason."""


class Start(NamedTuple):
    """Where to begin: at a timestamp (ms), or else at an offset, which may be `EARLIEST` or `LATEST`."""

    offset: int = LATEST
    timestamp_ms: int | None = None


def partition_records(
    topics: list[str],
    partition: int | None,
    start: Start,
    limits: Limits,
    on_damage: OnDamage,
    bootstrap: str,
    command_config: CommandConfig,
    *,
    isolation_level: str,
) -> Generator[Consumed, None, None]:
    """Yield records of these topics, or of this partition of each, in the order of arrival."""
    properties = {**_FETCH, **read_properties(command_config), "isolation.level": isolation_level}
    try:
        fetch = from_properties(FetchConfig, properties)
    except ConfigError as error:
        fail(str(error), EXIT_USAGE)
    with open_cluster(bootstrap, command_config) as cluster:
        places = [tp for topic in topics for tp in _partitions(cluster, topic, partition, bootstrap)]
        offsets = _offsets(cluster, places, start)
        limits.assigned(places)
        out_of_range = EARLIEST if start.offset == EARLIEST else LATEST
        with Tail(cluster.config, fetch, offsets, out_of_range) as tail:
            try:
                while not limits.is_over:
                    for tp, arrived in tail.poll(_POLL_S).items():
                        for record in _records(tp, arrived, on_damage, check_crcs=fetch.check_crcs):
                            limits.count(tp)
                            yield record
                            if limits.is_full:
                                return
                        if arrived.is_at_end:
                            limits.reached_end(tp)
            except UnknownPartition as error:
                _explain(error, error.topic, cluster, bootstrap)


def _partitions(cluster: Cluster, topic: str, partition: int | None, bootstrap: str) -> list[TopicPartition]:
    try:
        numbers = sorted(cluster.require_topics([topic])[topic].partitions)
    except ServerError as error:
        _explain(error, topic, cluster, bootstrap)
    if partition is not None and partition not in numbers:
        fail(f"topic {topic!r} has no partition {partition}: it has {len(numbers)}")
    return [TopicPartition(topic, number) for number in numbers if partition in (None, number)]


def _offsets(cluster: Cluster, places: list[TopicPartition], start: Start) -> dict[TopicPartition, int]:
    if start.timestamp_ms is None:
        return dict.fromkeys(places, start.offset)
    listed = list_offsets(cluster, dict.fromkeys(places, start.timestamp_ms))
    return {tp: LATEST if found.offset == NO_OFFSET else found.offset for tp, found in listed.items()}


def _explain(error: ServerError, topic: str, cluster: Cluster, bootstrap: str) -> NoReturn:
    """End the command with the error in the words that librdkafka has for its code."""
    hint = partial(similar_topics, topic, cluster)
    explain(KafkaError(int(error.code)), bootstrap, f"topic {topic!r}", hint)


def _records(
    tp: TopicPartition, arrived: Arrived, on_damage: OnDamage, *, check_crcs: bool
) -> Iterator[Consumed]:
    """Decode what arrived; a damaged batch is reported between the records around it."""
    damaged: deque[tuple[int, str]] = deque()

    def note(header: BatchHeader, error: CorruptBatch | MalformedRecords) -> None:
        place = f"topic {tp.topic!r}, partition {tp.partition}, offset {header.base_offset}"
        damaged.append((header.base_offset, f"{place}: the batch is damaged: {error}"))

    for span in arrived.spans:
        position, offset = 0, arrived.offset
        while position < len(span):
            columns = decode_columns(
                span[position:],
                offset,
                include_headers=True,
                check_crc=check_crcs,
                stop_at_bytes=_BYTES_PER_DECODING,
                on_damage=note,
            )
            for record in _rows(tp, columns):
                while damaged and damaged[0][0] <= record.offset:
                    on_damage(damaged.popleft()[1])
                yield record
            while damaged:
                on_damage(damaged.popleft()[1])
            position, offset = position + columns.end_position, columns.next_offset


def _rows(tp: TopicPartition, columns: RecordColumns) -> Iterator[Consumed]:
    assert columns.headers is not None
    offsets = memoryview(columns.offset).cast("q")
    timestamps = memoryview(columns.timestamp).cast("q")
    keys, values, headers = _values(columns.key), _values(columns.value), _headers(columns.headers)
    for offset, timestamp_ms, key, value, pairs in zip(
        offsets, timestamps, keys, values, headers, strict=True
    ):
        yield Consumed(tp.topic, tp.partition, offset, timestamp_ms, key, value, pairs)


def _values(column: BinaryColumn | None) -> Iterator[bytes | None]:
    assert column is not None
    data, valid = bytes(column.data), column.validity
    for row, (start, stop) in enumerate(pairwise(memoryview(column.offsets).cast("i"))):
        is_null = valid is not None and not valid[row >> 3] >> (row & 7) & 1
        yield None if is_null else data[start:stop]


def _headers(column: HeadersColumn) -> Iterator[list[tuple[str, bytes | None]]]:
    names, values = _values(column.keys), _values(column.values)
    for start, stop in pairwise(memoryview(column.offsets).cast("i")):
        yield [((next(names) or b"").decode(), next(values)) for _ in range(stop - start)]
