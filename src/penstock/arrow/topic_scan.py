"""Read the records of topics between two positions into anything that accepts Arrow."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.arrow.decoded import Format
from penstock.arrow.formats import REGISTERED, make_format
from penstock.arrow.layout import DAMAGED_BATCHES, DECODE_ERRORS, DamagedBatches, DecodeErrors, Layout
from penstock.arrow.loss import LossRule
from penstock.arrow.positions import Position, resolve
from penstock.arrow.ranges import fetch_ranges
from penstock.arrow.scan import ScannedBatch, scan
from penstock.arrow.schema_choice import SchemaChoice, refuse_idle_registry
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import UnknownPartition
from penstock.client.reading.fetcher import FetchConfig, Fetched, Fetcher, PartitionRange
from penstock.client.settings import ConfigError, from_properties, property_names, resolved

if TYPE_CHECKING:
    import pandas
    import polars

log = logging.getLogger(__name__)

_MAX_DECODING_THREADS: Final = 4
# A read writes nothing, so it can't write dead letters either.
_DECODE_ERRORS: Final = tuple(choice for choice in DECODE_ERRORS if choice != "dead-letter")
_SERVERS: Final = "bootstrap.servers"
_LISTENER_PATIENCE_MS: Final = 3_000
"""The time for which `read` retries where nothing listens, since the address may be wrong.

The scan itself retries for ``default.api.timeout.ms``, so that it continues after the restart of a broker.
"""
_FIRST_CONTACT_MS: Final = 10_000
"""Limit on each request of `read`, since a user waits for it."""
_LOSS_ADVICE: Final = "pass fail_on_data_loss=False"


def read(
    topics: str | Sequence[str] | Mapping[str, Sequence[int]],
    bootstrap_servers: str,
    *,
    start: Position = "earliest",
    end: Position = "latest",
    columns: Sequence[str] | None = None,
    key_format: str = "binary",
    value_format: str = "binary",
    key_schema: SchemaChoice | str | pa.Schema | pa.DataType | None = None,
    value_schema: SchemaChoice | str | pa.Schema | pa.DataType | None = None,
    registry: str | Mapping[str, str] | None = None,
    decode_errors: DecodeErrors = "fail",
    damaged_batches: DamagedBatches = "fail",
    include_headers: bool = False,
    isolation_level: str = "read_committed",
    fail_on_data_loss: bool = True,
    threads: int | None = None,
    properties: Mapping[str, str] | None = None,
) -> TopicScan:
    """Read the records of topics between two positions.

    The result is a `TopicScan`, which pandas, Polars, DuckDB and Arrow accept. This call fixes the offsets;
    each use of the scan fetches them again.

    Args:
        topics: a topic, several, or partitions by topic: ``{"orders": [0, 2]}``.
        bootstrap_servers: ``host:port``, several separated by commas.
        start: where to begin: ``"earliest"``, ``"latest"``, a ``datetime`` with a time zone or ms since 1970
            (the first record at or after it), or offsets of all partitions, ``{0: 23, 1: "earliest"}``, which
            are grouped by topic if there are several.
        end: where to end, exclusive, in the same forms; ``"latest"`` is the end at the time of this call.
        columns: only these, in this order. The columns are key, value, topic, partition, offset, timestamp,
            timestampType, headers (with ``include_headers``), ``_error`` (with ``decode_errors="null"``).
        key_format, value_format: ``binary``, ``string``, ``json``, ``short``, ``int``, ``long``, ``float``,
            ``double`` (Kafka's serializers), ``uuid``, ``csv``, ``avro``, ``json-schema`` or ``protobuf``.
        key_schema, value_schema: for ``json`` and ``csv``, a schema in DDL (``"id BIGINT, name STRING"``) or
            Arrow's types; without one, JSON documents are checked and stay text. For ``avro``,
            ``json-schema`` and ``protobuf`` the text of the schema to read by, or a `SchemaChoice`; the
            default is the latest schema of the topic's subject, ``<topic>-value`` or ``<topic>-key``, in the
            registry.
        registry: URLs of a schema registry, or the properties of its client (``schema.registry.url``, …).
        decode_errors: ``"fail"``; ``"null"`` with the reason in the column ``_error``; ``"column"``, with the
            record's bytes in ``_error_key`` and ``_error_value`` as well.
        damaged_batches: ``"fail"``, or ``"skip"`` to leave out batches of which no record can be read.
        isolation_level: ``read_committed`` leaves out records of open and aborted transactions.
        fail_on_data_loss: whether records that no longer exist when they are read are an error or a warning.
        threads: the number of decoding threads. By default only the caller's thread decodes, which is usually
            faster than the network; ``json`` and ``uuid`` use one thread for each processor, up to four.
        properties: Kafka's client properties, such as ``{"fetch.max.bytes": "16777216"}``.

    Raises ConfigError for arguments, UnknownPartition, NothingListens, ServerUnreachable and other
    ClientErrors.
    """
    if decode_errors not in _DECODE_ERRORS:
        raise ConfigError(f"'decode_errors': expected one of {_DECODE_ERRORS}, found {decode_errors!r}")
    if damaged_batches not in DAMAGED_BATCHES:
        raise ConfigError(f"'damaged_batches': expected one of {DAMAGED_BATCHES}, found {damaged_batches!r}")
    refuse_idle_registry([] if registry is None else ["registry"], (key_format, value_format))
    names = [topics] if isinstance(topics, str) else list(topics)
    layout = Layout(
        key=_format("key", key_format, key_schema, names, registry),
        value=_format("value", value_format, value_schema, names, registry),
        decode_errors=decode_errors,
        include_headers=include_headers,
        damaged_batches=damaged_batches,
    ).select(columns)
    if threads is None:
        is_slow = layout.key.is_slow or layout.value.is_slow
        threads = min(len(os.sched_getaffinity(0)), _MAX_DECODING_THREADS) if is_slow else 1
    if threads < 1:
        raise ConfigError(f"'threads': expected 1 or more, found {threads}")
    client, fetch = _configs(bootstrap_servers, isolation_level, properties or {})
    first_contact = replace(client, api_timeout_ms=min(client.api_timeout_ms, _FIRST_CONTACT_MS))
    with Cluster(first_contact) as cluster:
        partitions = _partitions(topics, cluster)
        starts = resolve(start, partitions, cluster, fetch.isolation, "start")
        ends = resolve(end, partitions, cluster, fetch.isolation, "end")
        known = cluster.metadata.topics
    for tp in partitions:
        if starts[tp] > ends[tp]:
            raise ConfigError(f"'start' of {tp} is offset {starts[tp]}: expected one up to 'end', {ends[tp]}")
    ranges = tuple(
        PartitionRange(tp.topic, tp.partition, starts[tp], ends[tp], known[tp.topic].topic_id)
        for tp in partitions
    )
    loss = LossRule(
        fail_on_data_loss,
        partial(log.warning, "records lost, continuing with the rest reason=%s"),
        _LOSS_ADVICE,
    )
    return TopicScan(client, fetch, ranges, layout, loss, threads)


class TopicScan:
    """Records between fixed offsets of some partitions, created by `read`. It holds no connection itself.

    The rows of tables and frames are ordered by topic, partition and offset. Streams (`to_reader`, and the
    input of DuckDB and others) keep the order within each partition and mix the partitions as they arrive.
    """

    def __init__(
        self,
        client: ClientConfig,
        fetch: FetchConfig,
        ranges: tuple[PartitionRange, ...],
        layout: Layout,
        loss: LossRule,
        threads: int,
    ) -> None:
        self._client = client
        self._fetch = fetch
        self._ranges = ranges
        self._layout = layout
        self._loss = loss
        self._threads = threads

    @property
    def schema(self) -> pa.Schema:
        return self._layout.schema

    @property
    def offsets(self) -> dict[TopicPartition, range]:
        """The offsets to read of each partition. Some of them may have no record."""
        return {part.topic_partition: range(part.start, part.end) for part in self._ranges}

    def __repr__(self) -> str:
        parts = ", ".join(f"{part.topic_partition} {part.start}–{part.end}" for part in self._ranges)
        return f"<TopicScan of {parts}; columns {', '.join(self.schema.names)}>"

    def to_table(self) -> pa.Table:
        """Read all records into memory. Raises DataLoss, UndecodableRecord or ClientError."""
        found = sorted(self._scan(), key=lambda scanned: scanned.range.topic_partition)
        return pa.Table.from_batches((scanned.batch for scanned in found), schema=self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return all records as a stream that uses some 100 to 200 MB at a time, however many they are.

        While it is read, it raises the errors of `to_table`.
        """
        batches = (scanned.batch for scanned in self._scan())
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Read all records into a data frame. ``options`` are those of `pyarrow.Table.to_pandas`."""
        return self.to_table().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        import polars

        frame = polars.from_arrow(self.to_table())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Implement the Arrow PyCapsule interface, through which DuckDB, Polars and others read."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _scan(self) -> Iterator[ScannedBatch]:
        return scan(self._fetched(), self._layout, check_crcs=self._fetch.check_crcs, threads=self._threads)

    def _fetched(self) -> Iterator[Fetched]:
        with Cluster(self._client) as cluster:
            fetcher = Fetcher(cluster, self._fetch)
            try:
                yield from fetch_ranges(fetcher, cluster, self._ranges, self._loss)
            finally:
                fetcher.close()


def _format(
    part: str,
    name: str,
    schema: SchemaChoice | str | pa.Schema | pa.DataType | None,
    topics: Sequence[str],
    registry: str | Mapping[str, str] | None,
) -> Format:
    if name not in REGISTERED:
        return make_format(name, schema)
    choice = schema if isinstance(schema, SchemaChoice) else SchemaChoice(schema)
    properties = {"schema.registry.url": registry} if isinstance(registry, str) else registry
    return make_format(name, choice.completed(part, topics, properties))


def _configs(
    servers: str, isolation_level: str, properties: Mapping[str, str]
) -> tuple[ClientConfig, FetchConfig]:
    known = property_names(ClientConfig, FetchConfig)
    properties = resolved(properties)
    if (other := properties.get(_SERVERS, servers)) != servers:
        raise ConfigError(f"{_SERVERS!r} in 'properties' is {other!r}: expected {servers!r}, or none")
    for name in properties:
        if name not in known and name != _SERVERS:
            raise ConfigError(f"unknown property {name!r} in 'properties': expected some of {sorted(known)}")
    given = {"isolation.level": isolation_level, **properties, _SERVERS: servers}
    return ClientConfig.from_properties(given), from_properties(FetchConfig, given)


def _partitions(
    topics: str | Sequence[str] | Mapping[str, Sequence[int]], cluster: Cluster
) -> list[TopicPartition]:
    """Return all partitions to read. Raises ConfigError, NothingListens, or UnknownPartition."""
    names = [topics] if isinstance(topics, str) else list(topics)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"'topics': expected names of topics, found {topics!r}")
    cluster.require_listener(_LISTENER_PATIENCE_MS)
    known = cluster.refresh(names).topics
    found: set[TopicPartition] = set()
    for name in names:
        if name not in known:
            raise UnknownPartition(name, None, cluster.config.servers_text)
        there = known[name].partitions
        wanted = topics[name] if isinstance(topics, Mapping) else there
        for partition in wanted:
            if partition not in there:
                raise UnknownPartition(name, partition, cluster.config.servers_text)
            found.add(TopicPartition(name, partition))
    return sorted(found)
