"""Global tables: every worker process holds all of them and follows their topics from batch to batch.

The plan of a batch has their end offsets, so all tasks of a batch see at least the records before these. A
batch that runs again may see more, as in Kafka Streams.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import PartitionRange
from penstock.client.reading.offsets import LATEST, IsolationLevel, list_offsets
from penstock.spark.source.offsets import Offsets, from_json
from penstock.spark.source.read import read_ranges
from penstock.spark.streams.blocks.layout import block_of
from penstock.spark.streams.blocks.packing import Kind, note_of
from penstock.spark.streams.planning.plan import StreamsPlan
from penstock.topology.stores.global_tables import follow


class GlobalTables:
    """The global tables of one plan in one process."""

    def __init__(self, plan: StreamsPlan) -> None:
        tables = plan.topology.globals.values()
        self._plan = plan
        self._maps = {table.topic: table.store.new_map() for table in tables}
        self._positions: Offsets = {}
        self.stores: Mapping[str, Any] = {
            table.store.name: table.store.open(self._maps[table.topic]) for table in tables
        }

    def ends(self) -> Offsets:
        """Return the current ends of the tables' topics. Raises ClientError."""
        with Cluster(self._plan.source.client) as cluster:
            topics = cluster.require_topics(self._maps)
            partitions = [
                TopicPartition(name, number) for name, t in topics.items() for number in t.partitions
            ]
            listed = list_offsets(cluster, dict.fromkeys(partitions, LATEST), IsolationLevel.READ_COMMITTED)
        return {tp: found.offset for tp, found in listed.items()}

    def advance(self, ends: Offsets) -> None:
        """Read up to these offsets. Raises ClientError, DataLoss."""
        ranges = [
            PartitionRange(tp.topic, tp.partition, self._positions.get(tp, 0), end)
            for tp, end in ends.items()
            if end > self._positions.get(tp, 0)
        ]
        for batch in read_ranges(self._plan.table_source, ranges) if ranges else ():
            rows = block_of(batch, Kind.RESTORE, 0).inputs()
            follow(self._maps[rows[0][0]], rows)
        for part in ranges:
            self._positions[TopicPartition(part.topic, part.partition)] = part.end


def ends_named_by(packed: Iterable[bytes]) -> Offsets:
    """Return the offsets up to which a batch's blocks require the global tables."""
    ends: Offsets = {}
    for note in {note_of(data) for data in packed} - {""}:
        for tp, end in from_json(json.loads(note)).items():
            ends[tp] = max(end, ends.get(tp, 0))
    return ends
