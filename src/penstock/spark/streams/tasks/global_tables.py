"""Global tables: every worker process holds all of them and follows their topics from batch to batch.

The plan of a batch has their end offsets, so all tasks of a batch see at least the records before these. A
batch that runs again may see more, as in Kafka Streams. It also has the ids of the topics: where a topic was
deleted and created again, the process drops the table and reads the new topic from its first record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import PartitionRange
from penstock.client.reading.offsets import LATEST, IsolationLevel, list_offsets
from penstock.protocol.messages import ZERO_UUID
from penstock.spark.source.checkpointed import Checkpointed, ids_of
from penstock.spark.source.offsets import Offsets
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
        self._topic_ids: dict[str, str] = {}
        """The ids of the topics that the positions belong to."""
        self.stores: Mapping[str, Any] = {
            table.store.name: table.store.open(self._maps[table.topic]) for table in tables
        }

    def ends(self) -> Checkpointed:
        """Return the current ends of the tables' topics. Raises ClientError."""
        with Cluster(self._plan.source.client) as cluster:
            topics = cluster.require_topics(self._maps)
            partitions = [
                TopicPartition(name, number) for name, t in topics.items() for number in t.partitions
            ]
            listed = list_offsets(cluster, dict.fromkeys(partitions, LATEST), IsolationLevel.READ_COMMITTED)
            topic_ids = ids_of(topics, cluster.metadata)
        return Checkpointed({tp: found.offset for tp, found in listed.items()}, topic_ids)

    def advance(self, ends: Checkpointed) -> None:
        """Read up to these offsets. Raises ClientError, DataLoss."""
        for topic, topic_id in ends.topic_ids.items():
            known = self._topic_ids.setdefault(topic, topic_id)
            if known != topic_id and self._exists(topic, topic_id):
                self._start_again(topic, topic_id)
        ranges = [
            PartitionRange(
                tp.topic,
                tp.partition,
                self._positions.get(tp, 0),
                end,
                ends.topic_id(tp.topic) or ZERO_UUID,
            )
            for tp, end in ends.offsets.items()
            if end > self._positions.get(tp, 0)
            and ends.topic_ids.get(tp.topic) == self._topic_ids.get(tp.topic)
        ]
        for batch in read_ranges(self._plan.table_source, ranges) if ranges else ():
            rows = block_of(batch, Kind.RESTORE, 0).inputs()
            follow(self._maps[rows[0][0]], rows)
        for part in ranges:
            self._positions[part.topic_partition] = part.end

    def _exists(self, topic: str, topic_id: str) -> bool:
        """Whether the topic has this id now: blocks of an earlier task may name the one before."""
        with Cluster(self._plan.source.client) as cluster:
            return ids_of([topic], cluster.refresh([topic])).get(topic) == topic_id

    def _start_again(self, topic: str, topic_id: str) -> None:
        held = self._maps[topic]
        held.apply([(key, None) for key in held.data])
        self._positions = {tp: offset for tp, offset in self._positions.items() if tp.topic != topic}
        self._topic_ids[topic] = topic_id


def ends_named_by(packed: Iterable[bytes]) -> Iterator[Checkpointed]:
    """Yield the ends up to which a batch's blocks require the global tables, each only once."""
    for note in {note_of(data) for data in packed} - {""}:
        yield Checkpointed.from_json(json.loads(note))
