"""Exactly-once writing: tasks stage finished record batches, the driver publishes them in one transaction.

Tasks never talk to a partition leader, so an attempt that fails, or loses to a speculative one, leaves
nothing in the cluster. No transaction is open while they run. `penstock.spark.sink.publisher` describes what
is published, and how an uncertain outcome is resolved after a crash.

Spark calls a writer in several processes and creates a new one for each call, so all state is kept in the
checkpoint and in the cluster, never in the writer.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import ClassVar, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.client.admin.batch_limit import max_message_bytes
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import ClusterMetadata, TopicPartition
from penstock.client.errors import ClientError
from penstock.client.settings import ConfigError
from penstock.protocol.uuids import uuid_to_text
from penstock.spark.sink.checkpoint import Checkpoint, CheckpointError, GroupOffsets, OffsetEntry, SinkState
from penstock.spark.sink.columns import SinkColumns, find_columns
from penstock.spark.sink.encoding import RowEncoder, TopicLimits
from penstock.spark.sink.locations import Location
from penstock.spark.sink.marker import Marker
from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.ownership import Driver, Ownership, RunFenced
from penstock.spark.sink.publisher import (
    Content,
    MarkerMismatch,
    Publication,
    Publisher,
    TopicReplaced,
    publish_once,
)
from penstock.spark.sink.repeatable import WRITE_PREFIX, publish_version
from penstock.spark.sink.staged import INLINE_BYTES, Run, Stage, TaskStaged, partitions_of
from penstock.spark.workers.connections import WrittenTopics, shared_cluster
from penstock.spark.workers.memory import settle_worker

log = logging.getLogger(__name__)

UNSTAGED_BYTES_MAX: Final = 64 << 20
"""The limit for a task of a batch write without a staging directory: the driver keeps its data in memory."""

# The local properties that Spark sets for the jobs of a query. The job group is the run's id.
_QUERY_ID: Final = "sql.streaming.queryId"
_RUN_ID: Final = "spark.jobGroup.id"
_BATCH_ID: Final = "streaming.sql.batchId"
# An environment variable of the driver's Python processes.
_LOCAL_DIRECTORIES: Final = "SPARK_LOCAL_DIRS"

_DRIVER_ID_LENGTH: Final = 12

# Topics' limits by process and topic id: when they were requested (monotonic seconds), and the limit.
_max_bytes: dict[tuple[int, ClientConfig, str, bytes], tuple[float, int | None]] = {}
# The runs for which this process has removed earlier leftovers from a staging directory.
_swept: set[tuple[str, str]] = set()


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """The writer of one streaming query. The driver creates it; tasks get a pickled copy.

    ``driver`` is the driver of a streams application, which claimed the application when it started.
    ``inline_bytes``: a task with more than this to write stages it in a file.
    """

    inline_bytes: ClassVar[int] = INLINE_BYTES
    publisher_type: ClassVar[type[Publisher]] = Publisher

    def __init__(self, options: SinkOptions, schema: StructType, driver: Driver | None = None) -> None:
        if options.checkpoint is None:
            raise ConfigError(
                "'delivery' exactly-once needs the option 'checkpointLocation' on the query itself: a sink "
                "does not see the session's spark.sql.streaming.checkpointLocation"
            )
        self._options = options
        self._columns = find_columns(schema, options.topic is not None, options.encoded_parts)
        self._driver = driver
        self._checkpoint_uri = Location.open(options.checkpoint, "checkpointLocation").uri

    def recover(self) -> None:
        """Take over from an earlier driver that may still be alive, before the first batch runs.

        This ends a transaction that the earlier driver has left open, which would hold back readers. Raises
        RunFenced, ClientError, CheckpointError.
        """
        checkpoint = self._checkpoint()
        query_id, state = checkpoint.query_id(), checkpoint.state()
        if query_id is not None and state is not None:
            self._publisher(self._cluster(), query_id, state).recover()
        elif self._driver is not None:  # no batch has had a row yet
            self._ownership(self._cluster(), self._driver).require(require_stable=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.stage(iterator)

    def stage(
        self, rows: Iterator[pa.RecordBatch], on_batch: Callable[[], None] = lambda: None
    ) -> TaskStaged:
        """Stage the rows of this task. ``on_batch`` is called after each record batch.

        Raises what `stage_rows` raises.
        """
        run = _current_run()
        context = TaskContext.get()
        assert context is not None
        stage = Stage(
            self._checkpoint().staging.child(str(run.batch_id)),
            f"{context.partitionId()}-{context.taskAttemptId()}",
            self.inline_bytes,
        )
        return stage_rows(rows, self._options, self._columns, stage, run, on_batch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Publish the batch.

        Raises RunFenced, MarkerMissing, MarkerMismatch, TopicReplaced and other ClientErrors; CheckpointError
        and StagedBatchMissing.
        """
        reports = _reports(messages)
        if not reports:
            return  # no task ran: nothing was read, and there is nothing to write
        checkpoint = self._checkpoint()
        run = _common_run(reports, checkpoint.require_query_id(), batchId)
        cluster = self._cluster()
        cluster_id = _refreshed(cluster, reports).cluster_id
        known = checkpoint.state()
        state = known or self._first_state(reports, batchId, cluster_id)
        if state is None:
            return  # no rows yet, so there is no topic to keep the marker under: the batch may be repeated
        if state.cluster_id != cluster_id:
            raise MarkerMismatch(
                f"the query has written to the cluster {state.cluster_id} so far, 'kafka.bootstrap.servers' "
                f"now names {cluster_id}: start with a new checkpoint"
            )
        if known is None:
            checkpoint.set_state(state)
        entry = checkpoint.offset_entry(batchId)
        staging = checkpoint.staging.child(str(batchId))
        content = Content(
            partitions_of(reports),
            lambda: chain.from_iterable(report.batches(staging) for report in reports),
            _group_offsets(self._groups_of(entry), cluster_id),
            _group_notes(reports),
        )
        publication = Publication(
            batchId, run.run_id, entry.fingerprint, must_be_known=batchId > state.since, content=content
        )
        publisher = self._publisher(cluster, run.query_id, state)
        try:
            publisher.publish(publication)
        except MarkerMismatch:
            _refuse_overtaken(publisher.marker(), checkpoint, batchId)
            raise
        if (run.run_id, self._checkpoint_uri) not in _swept or any(report.name for report in reports):
            _swept.add((run.run_id, self._checkpoint_uri))
            _tidy(lambda: checkpoint.remove_staged(up_to=batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete what was staged, and end a transaction that a dead commit has left open.

        Spark may call this after a commit that succeeded; what is published then stays.
        """
        reports = [message for message in messages if isinstance(message, TaskStaged)]
        checkpoint = self._checkpoint()
        staging = checkpoint.staging.child(str(batchId))
        for report in reports:
            if report.name is not None:
                file = staging.child(report.name)
                with contextlib.suppress(OSError):
                    file.filesystem.delete_file(file.path)
        with contextlib.suppress(ClientError, CheckpointError, OSError):
            self._end_leftover(checkpoint, reports)

    def _end_leftover(self, checkpoint: Checkpoint, reports: Sequence[TaskStaged]) -> None:
        state = checkpoint.state()
        run = next((report.run for report in reports if report.run is not None), None)
        if state is None or run is None:
            return  # no commit has started
        publisher = self._publisher(self._cluster(), run.query_id, state)
        marker = publisher.marker(require_stable=False)
        if marker is None or run.run_id not in marker.past:
            publisher.recover()

    def _first_state(
        self, reports: Sequence[TaskStaged], batch_id: int, cluster_id: str | None
    ) -> SinkState | None:
        """The state before the first publication, or None if no task reports a topic for the marker."""
        topic = next((topic for report in reports for topic, _, _ in report.index), None)
        return None if topic is None else SinkState(batch_id, topic, cluster_id)

    def _groups_of(self, entry: OffsetEntry) -> Iterable[GroupOffsets]:
        """The groups whose offsets belong to what the batch has published."""
        return entry.groups

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint.open(self._checkpoint_uri)

    def _cluster(self) -> Cluster:
        return shared_cluster(self._options.client)

    def _publisher(self, cluster: Cluster, query_id: str, state: SinkState) -> Publisher:
        options, driver = self._options, self._driver
        return self.publisher_type(
            cluster,
            options.producer,
            query_id,
            state.marker_topic,
            options.transaction.timeout_ms,
            driver_id() if driver is None else driver.start_id[:_DRIVER_ID_LENGTH],
            None if driver is None else self._ownership(cluster, driver),
        )

    def _ownership(self, cluster: Cluster, driver: Driver) -> Ownership:
        return Ownership(cluster, driver, self._options.transaction.timeout_ms)


def _refuse_overtaken(marker: Marker | None, checkpoint: Checkpoint, batch_id: int) -> None:
    """Raise RunFenced if another driver of this checkpoint has published a later batch meanwhile.

    The marker then belongs to an entry that this checkpoint's offset log has, with the same fingerprint. In
    an older copy of a checkpoint that entry is missing or differs.
    """
    if marker is None or marker.batch_id <= batch_id:
        return
    with contextlib.suppress(CheckpointError):
        if checkpoint.offset_entry(marker.batch_id).fingerprint == marker.fingerprint:
            raise RunFenced(
                f"batch {batch_id} was to be written, but another driver of the query has published batch "
                f"{marker.batch_id} of the same checkpoint meanwhile, in run {marker.run_id}: if that driver "
                "has ended, start this query again with the same checkpoint. No new checkpoint is needed"
            )


class ExactlyOnceBatchWriter(DataSourceArrowWriter):
    """The writer of one `df.write`, of which one transaction publishes all rows or none.

    The transaction has an id of its own, or that of the program that may repeat the write.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = find_columns(schema, options.topic is not None, options.encoded_parts)
        self._job_id = uuid.uuid4().hex
        self._staging_uri = (
            None if options.staging is None else Location.open(options.staging, "stagingLocation").uri
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        staging = self._staging()
        stage = Stage(
            staging,
            f"{context.partitionId()}-{context.taskAttemptId()}",
            UNSTAGED_BYTES_MAX if staging is None else INLINE_BYTES,
        )
        return stage_rows(iterator, self._options, self._columns, stage, None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish all rows, unless this version of the write was published.

        Raises TransactionLost, StagedBatchMissing, TopicReplaced, ClientError.
        """
        options = self._options
        reports = _reports(messages)
        staging = self._staging()
        content = Content(
            partitions_of(reports),
            lambda: chain.from_iterable(report.batches(staging) for report in reports),
            {},
        )
        cluster, timeout_ms = shared_cluster(options.client), options.transaction.timeout_ms
        if content.partitions:
            _refreshed(cluster, reports)
        if options.app_version is not None:
            assert options.topic is not None
            publish_version(
                cluster, options.producer, options.topic, options.app_version, timeout_ms, content
            )
        elif content.partitions:
            publish_once(cluster, options.producer, f"{WRITE_PREFIX}{self._job_id}", timeout_ms, content)
        self._remove_staging()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._remove_staging()

    def _staging(self) -> Location | None:
        if self._staging_uri is None:
            return None
        return Location.open(self._staging_uri, "stagingLocation").child(f"{WRITE_PREFIX}{self._job_id}")

    def _remove_staging(self) -> None:
        staging = self._staging()
        if staging is not None:
            _tidy(staging.remove)


class _Encoder(RowEncoder):
    """An encoder that requests each topic's limits first, so that the driver never has to split a batch."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        super().__init__(
            columns, options.topic, options.batch, transactional=True, encodings=options.encodings
        )
        self._options = options
        self._written = WrittenTopics(options.client)
        self.topic_ids: dict[str, bytes] = {}
        """The ids of the topics whose partitions the encoder has used."""

    def limits_of(self, topic: str) -> TopicLimits:
        options = self._options
        found = self._written[topic]
        self.topic_ids[topic] = found.topic_id
        key = (os.getpid(), options.client, topic, found.topic_id)
        asked_s, max_bytes = _max_bytes.get(key, (float("-inf"), None))
        now_s = time.monotonic()
        if now_s - asked_s > options.client.metadata_max_age_ms / 1000:
            max_bytes = max_message_bytes(shared_cluster(options.client), topic)
            _max_bytes[key] = now_s, max_bytes
        request_bytes = options.producer.max_request_bytes
        return TopicLimits(
            len(found.partitions), request_bytes if max_bytes is None else min(max_bytes, request_bytes)
        )


def stage_rows(
    batches: Iterator[pa.RecordBatch],
    options: SinkOptions,
    columns: SinkColumns,
    stage: Stage,
    run: Run | None,
    on_batch: Callable[[], None] = lambda: None,
) -> TaskStaged:
    """Stage the rows of one task attempt. ``on_batch`` is called after each record batch.

    Raises RowRefused, RecordTooLarge, StagingRequired, ClientError, OSError.
    """
    settle_worker()
    encoder = _Encoder(options, columns)
    rows = 0
    try:
        for batch in batches:
            for encoded in encoder.encode(batch):
                stage.add(encoded)
                on_batch()
            rows += batch.num_rows
        return stage.finish(run, rows, encoder.topic_ids.items())
    except BaseException:
        stage.discard()
        raise


def _current_run() -> Run:
    """Return the run from the task's context. Raises RuntimeError if Spark does not provide it."""
    context = TaskContext.get()
    found = [
        None if context is None else context.getLocalProperty(n) for n in (_QUERY_ID, _RUN_ID, _BATCH_ID)
    ]
    query_id, run_id, batch_id = found
    if query_id is None or run_id is None or batch_id is None:
        raise RuntimeError(
            f"Spark gives this task no query, run and batch ({_QUERY_ID}, {_RUN_ID}, {_BATCH_ID}): "
            f"found {found}"
        )
    return Run(query_id, run_id, int(batch_id))


def driver_id() -> str:
    """The id of the Spark driver that this process works for, or "" if it is unknown.

    Two drivers never share the directory of a block manager, and all processes of one driver know its name.
    """
    found = re.search(r"blockmgr-[0-9a-f-]*([0-9a-f]{12})\b", os.environ.get(_LOCAL_DIRECTORIES, ""))
    return found[1] if found else ""


def _reports(messages: Iterable[WriterCommitMessage | None]) -> list[TaskStaged]:
    reports: list[TaskStaged] = []
    for number, message in enumerate(messages):
        if not isinstance(message, TaskStaged):
            raise TypeError(f"task {number} reported {type(message).__name__}, expected TaskStaged")
        reports.append(message)
    return reports


def _refreshed(cluster: Cluster, reports: Iterable[TaskStaged]) -> ClusterMetadata:
    """Refresh the metadata of the topics that tasks have encoded records for.

    Raises TopicReplaced if one was deleted since, and ClientError.
    """
    encoded_for = {found for report in reports for found in report.topic_ids}
    metadata = cluster.refresh(topic for topic, _ in encoded_for)
    for topic, topic_id in sorted(encoded_for):
        known = metadata.topics.get(topic)
        if known is None or known.topic_id != topic_id:
            raise TopicReplaced(
                f"topic '{topic}' was deleted while tasks encoded records for its partitions: found "
                f"{'no such topic' if known is None else f'the id {uuid_to_text(known.topic_id)}'}, expected "
                f"the id {uuid_to_text(topic_id)}"
            )
    return metadata


def _common_run(reports: Sequence[TaskStaged], query_id: str, batch_id: int) -> Run:
    """Return the run that all tasks belong to. Raises CheckpointError."""
    found = {report.run for report in reports}
    (run, *others) = found
    if others or run is None or (run.query_id, run.batch_id) != (query_id, batch_id):
        raise CheckpointError(
            f"tasks report {sorted(map(str, found))}, expected batch {batch_id} of query {query_id}, to "
            "which the checkpoint belongs"
        )
    return run


def _group_offsets(
    groups: Iterable[GroupOffsets], cluster_id: str | None
) -> dict[str, dict[TopicPartition, int]]:
    """The offsets that join the transaction: those of groups on the cluster that the sink writes to.

    A source itself commits the offsets of a group on another cluster when the batch is done.
    """
    offsets: dict[str, dict[TopicPartition, int]] = {}
    for group in groups:
        if not group.cluster_id or group.cluster_id == cluster_id:
            offsets.setdefault(group.group_id, {}).update(group.offsets)
    return offsets


def _group_notes(reports: Iterable[TaskStaged]) -> dict[str, dict[TopicPartition, str]]:
    found: dict[str, dict[TopicPartition, str]] = {}
    for note in chain.from_iterable(report.notes for report in reports):
        found.setdefault(note.group_id, {})[note.partition] = note.metadata
    return found


def _tidy(remove: Callable[[], None]) -> None:
    """Remove staged files. A failure is only logged: the batch is published, and a later one removes them."""
    try:
        remove()
    except OSError as error:
        log.warning("staged batches not removed, although no longer needed error=%s", error)
