"""The streaming reader, which answers on the driver what Spark asks between micro-batches.

Offsets are those of Spark's own Kafka source, ``{"topic": {"0": 123}}`` with the next offset to read, plus
the other keys of `penstock.spark.source.checkpointed`.

Spark writes the end of a batch to the checkpoint before it runs the batch, but nothing writes the first
start: after a crash in batch 0, Spark calls `initialOffset` again. If that answer moves (``latest``,
``committed``, timestamps), the records between the two answers would be lost, so such a query begins with an
empty batch that fixes its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import UnknownPartition
from penstock.client.reading.fetcher import PartitionRange
from penstock.client.reading.offsets import EARLIEST, LATEST, IsolationLevel, list_offsets
from penstock.spark.source.checkpointed import Checkpointed, GroupRef, JsonOffsets
from penstock.spark.source.continuing import (
    require_same_cluster,
    require_same_subscription,
    require_whole_entry,
)
from penstock.spark.source.group import GroupFollower
from penstock.spark.source.offsets import Offsets, resolve, to_json
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.planning import TriggerDelay, limit_rows, plan_ranges, share_whole, split_ranges
from penstock.spark.source.read import RangePartition, loss_rule, read_ranges
from penstock.spark.source.tail import Ends, Tail

_IDLE_SETTLE_S: Final = 0.1
"""How long an idle trigger waits for a commit to the group: about as long as one commonly takes."""

SparksOffsets = Mapping[str, Mapping[str, Any]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one streaming query. ``ends``: shared ones on the driver, or None to list them."""

    def __init__(self, options: SourceOptions, ends: Ends | None = None) -> None:
        self._options = options
        self._ends = ends
        self._driver: _Driver | None = None

    @property
    def _here(self) -> _Driver:
        """The state on the driver; executors get a pickled reader and never need it."""
        if self._driver is None:
            self._driver = _Driver(self._options, self._ends)
        return self._driver

    def _require_listener(self) -> None:
        """Raise NothingListens soon if a new query, or a run to the present end, may have a wrong address."""
        if self._driver is None:
            with Cluster(self._options.client) as cluster:
                cluster.require_listener()

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_ends": None, "_driver": None}

    def initialOffset(self) -> JsonOffsets:
        self._require_listener()
        return self._here.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit that Spark passes to `latestOffset`, unless the trigger reads everything available."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: SparksOffsets, limit: ReadLimit) -> JsonOffsets:
        return self._here.latest(Checkpointed.from_json(start), limit).to_json()

    def reportLatestOffset(self) -> JsonOffsets | None:
        return to_json(self._here.tail.last_listed) or None

    def prepareForTriggerAvailableNow(self) -> None:
        self._require_listener()
        self._here.stop_at_the_present_end()

    def partitions(self, start: SparksOffsets, end: SparksOffsets) -> Sequence[InputPartition]:
        tasks = self._here.plan(Checkpointed.from_json(start), Checkpointed.from_json(end))
        return [RangePartition(*ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(self._options, partition.value)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()


class _Driver:
    """The driver's part of one query's source."""

    def __init__(self, options: SourceOptions, ends: Ends | None) -> None:
        self._options = options
        self._cluster = Cluster(options.client)
        self.tail = ends or Tail(self._cluster, options.subscription, options.fetch.isolation)
        self._follower: GroupFollower | None = None
        self._group: GroupRef | None = None
        if options.group_id is not None:
            self._follower = GroupFollower(options.client, options.group_id, options.group_recommit_ms)
            self._group = self._follower.open()
        self._delay: TriggerDelay | None = None
        if options.min_offsets_per_trigger is not None:
            self._delay = TriggerDelay(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self._held_at: Offsets | None = None
        self._initial: Checkpointed | None = None
        self._final: Checkpointed | None = None
        self._was_asked = False
        self._is_same_cluster = False

    def close(self) -> None:
        self.tail.close()
        self._cluster.close()
        if self._follower is not None:
            self._follower.close()

    def initial(self) -> Checkpointed:
        """The start of a query without a checkpoint; every call gives the same answer."""
        if self._initial is None:
            self._initial = self._resolve_start()
        return self._initial

    def _resolve_start(self) -> Checkpointed:
        options = self._options
        partitions = options.subscription.existing(self._cluster)
        isolation = options.fetch.isolation
        start = resolve(options.starting, partitions, self._cluster, isolation, "startingOffsets")
        return self.tail.checkpointed(start, self._group)

    def stop_at_the_present_end(self) -> None:
        self.tail.list_now()
        self._final = self.tail.checkpointed(self.tail.last_listed, self._group)

    def latest(self, start: Checkpointed, limit: ReadLimit) -> Checkpointed:
        """Return the end of the next batch, which starts at ``start``.

        Raises DataLoss, and ConfigError if the options do not fit the checkpoint.
        """
        self._require_same_cluster(start)
        is_first = not self._was_asked
        self._was_asked = True
        if is_first and start == self._initial and self._options.start_moves:
            return start
        # The first batch of a query that starts at the log's end is empty, but it counts as completed.
        is_completed = start != self._initial or (self._options.start_moves and not is_first)
        if self._follower is not None and is_completed:
            self._follower.completed(start)
        end = self._limited(start, self._end(start), limit)
        if end == start and self._follower is not None:
            if self._final is None:
                self._follower.settle(_IDLE_SETTLE_S)
            else:
                self._follower.require_settled()  # Spark doesn't ask again after this
        if end != start:
            require_same_subscription(start, end, self._options.subscription, self._cluster)
            if self._options.fail_on_data_loss:
                self._ranges(start, end)
        return end

    def _require_same_cluster(self, start: Checkpointed) -> None:
        if not self._is_same_cluster:
            cluster_id = self.tail.checkpointed({}, None).cluster_id or self._cluster.refresh([]).cluster_id
            require_same_cluster(start, cluster_id, self._options.client.servers_text)
            self._is_same_cluster = True

    def _end(self, start: Checkpointed) -> Checkpointed:
        """The ends of the partitions: the current ones, or those where the run stops."""
        if self._final is not None:
            self._final = self._not_before(start, self._final)
            return self._final
        known = start.offsets if self._held_at is None else self._held_at
        end = self.tail.checkpointed(self.tail.ends(known), self._group)
        return self._not_before(start, end)

    def _not_before(self, start: Checkpointed, end: Checkpointed) -> Checkpointed:
        """Return the end, listed again after a pause while it lies before the start.

        A new leader may still have to learn the previous one's end.
        """
        retries = self._options.offset_retries
        for attempts_left in reversed(range(retries.attempts)):
            if self._went_back(start, end):
                end = self._without_open_transactions(start, end)
            if not attempts_left or not self._went_back(start, end):
                break
            retries.pause()
            self.tail.list_now()
            end = self.tail.checkpointed(self.tail.last_listed, self._group)
        return end

    def _without_open_transactions(self, start: Checkpointed, end: Checkpointed) -> Checkpointed:
        """Let partitions end at the start if only an open transaction ends them before it.

        An earlier run has read beyond the transaction with another ``kafka.isolation.level``.
        """
        behind = [tp for tp, at in start.still_there(end).items() if end.offsets.get(tp, at) < at]
        if self._options.fetch.isolation is IsolationLevel.READ_UNCOMMITTED:
            return end
        whole = list_offsets(self._cluster, dict.fromkeys(behind, LATEST))
        held = {tp: start.offsets[tp] for tp in behind if whole[tp].offset >= start.offsets[tp]}
        return end.moved_to(end.offsets | held)

    @staticmethod
    def _went_back(start: Checkpointed, end: Checkpointed) -> bool:
        return any(end.offsets.get(tp, at) < at for tp, at in start.still_there(end).items())

    def _limited(self, start: Checkpointed, end: Checkpointed, limit: ReadLimit) -> Checkpointed:
        if end == start or isinstance(limit, ReadAllAvailable):
            return end
        begin = start.still_there(end)
        if self._delay is not None and self._delay.holds(begin, end.offsets):
            self._held_at = end.offsets  # only a later change can end the delay
            return start
        self._held_at = None
        if not isinstance(limit, ReadMaxRows):
            return end
        begins = self._earliest(end.offsets.keys() - begin.keys())
        return end.moved_to(limit_rows(begin, end.offsets, begins, limit.max_rows))

    def plan(self, start: Checkpointed, end: Checkpointed) -> list[list[PartitionRange]]:
        """Return the ranges that each task of a batch reads.

        Raises DataLoss, and ConfigError if the options do not fit the checkpoint.
        """
        self._require_same_cluster(start)
        is_first = start == self._initial
        if is_first:
            start = self._without_created(start, end)
        require_whole_entry(start, end, self._cluster)
        if self._follower is not None:
            self._follower.pause()
        if not self._was_asked and is_first and self._options.start_moves:
            return []  # batch 0 again: it was empty and only fixed the start
        options = self._options
        ranges = [self._of_its_topic(part, end) for part in self._ranges(start, end)]
        if options.max_partitions is not None and len(ranges) > options.max_partitions:
            return share_whole(ranges, options.max_partitions)
        parts = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        return [[part] for part in parts]

    def _without_created(self, start: Checkpointed, end: Checkpointed) -> Checkpointed:
        """Leave partitions that the end of batch 0 lacks to the next batch, which reads them whole.

        After a crash in batch 0, the start is listed again, and may have topics that were created since. A
        start within a partition is kept, because the next batch would read what lies before it.
        """
        later = start.offsets.keys() - end.offsets.keys()
        if not later:
            return start
        begins = self._earliest(later)
        created = {tp for tp in later if tp in begins and start.offsets[tp] <= begins[tp]}
        return start.moved_to({tp: at for tp, at in start.offsets.items() if tp not in created})

    def _ranges(self, start: Checkpointed, end: Checkpointed) -> list[PartitionRange]:
        """Return the range of each partition that has something to read. Raises DataLoss."""
        loss = loss_rule(self._options)
        for topic in start.recreated(end):
            loss.report(f"the topic '{topic}' was deleted and created again: its offsets start again")
        return plan_ranges(start.still_there(end), end.offsets, self._earliest, loss)

    def _of_its_topic(self, part: PartitionRange, end: Checkpointed) -> PartitionRange:
        """Add the topic's id to the range: from the plan, or for an older checkpoint from the cluster."""
        topic_id = end.topic_id(part.topic)
        if topic_id is None:
            known = self._cluster.topics({part.topic}).get(part.topic)
            topic_id = part.topic_id if known is None else known.topic_id
        return part._replace(topic_id=topic_id)

    def _earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offsets of partitions, without those deleted since they were listed."""
        wanted = set(partitions)
        try:
            listed = list_offsets(self._cluster, dict.fromkeys(wanted, EARLIEST))
        except UnknownPartition:
            there = wanted.intersection(self._options.subscription.partitions(self._cluster))
            listed = list_offsets(self._cluster, dict.fromkeys(there, EARLIEST))
        return {tp: found.offset for tp, found in listed.items()}
