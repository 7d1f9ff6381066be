"""Start an application, and follow and stop it while it runs."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import ConsumerGroup
from penstock.spark.launching.profiles import PROFILES, ProfileName
from penstock.spark.launching.session import build_session
from penstock.spark.observing.observation import DEFAULT_HOST, observe
from penstock.spark.progress import Progress as Progress
from penstock.spark.progress import read_progress
from penstock.spark.sink.checkpoint import Checkpoint, CheckpointError
from penstock.spark.sink.locations import Location
from penstock.spark.sink.ownership import Driver, Ownership
from penstock.spark.source.offsets import to_json
from penstock.spark.streams.planning.options import (
    Guarantee,
    has_state,
    sink_options,
    source_options,
    with_defaults,
)
from penstock.spark.streams.planning.plan import StreamsPlan, shuffled_topics
from penstock.spark.streams.query.counting import DeadLetterCount, DroppedCount
from penstock.spark.streams.query.datasource import NAME, PLAN
from penstock.spark.streams.query.packed_rows import packed_rows
from penstock.spark.streams.query.session import (
    active,
    checkpoint_option,
    tasks_max,
)
from penstock.spark.streams.running.checkpoint import CheckpointMismatch, Kept, continue_from, is_new
from penstock.spark.streams.running.failures import failure_of
from penstock.spark.streams.running.preparation import (
    client_properties,
    prepare_group,
    prepare_topics,
    written_topics,
)
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Topology
from penstock.topology.plans.description import describe
from penstock.views import View, Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.observing.listener import Watcher
    from penstock.spark.observing.observation import Observation

W = TypeVar("W", bound=View[Any, Any])


class RunningApp:
    """A running application, created by `start`."""

    def __init__(
        self,
        topology: Topology,
        query: StreamingQuery,
        session: SparkSession,
        dropped: DroppedCount,
        observation: Observation | None = None,
        client: Mapping[str, str] | None = None,
    ) -> None:
        self._topology = topology
        self.query = query
        """The Spark query, for everything that this class does not offer."""
        self._session = session
        self._dropped = dropped
        self._observation = observation
        self._client = dict(client or {})
        self._views: Views | None = None

    def __repr__(self) -> str:
        return f"<RunningApp {self._topology.application} {'running' if self.is_running else 'stopped'}>"

    def __enter__(self) -> RunningApp:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self._stop()  # the block's exception is raised, and takes precedence over the application's

    @property
    def is_running(self) -> bool:
        return bool(self.query.isActive)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the application ends; returns False at the timeout. Raises ApplicationFailed."""
        from pyspark.errors import StreamingQueryException

        try:
            if timeout_s is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(timeout_s))  # type: ignore[arg-type]  # accepts fractions
        except StreamingQueryException as error:
            raise failure_of(str(error)) from None

    def wait_until_read(self) -> None:
        """Wait until everything that the topics hold now is processed. Raises ApplicationFailed."""
        from pyspark.errors import StreamingQueryException

        try:
            self.query.processAllAvailable()
        except StreamingQueryException as error:
            raise failure_of(str(error)) from None

    def stop(self) -> None:
        """Stop after the current batch or abandon it; either way the next start continues exactly once.

        Raises ApplicationFailed if the application had failed before.
        """
        self._stop()
        error = self.query.exception()
        if error is not None:
            raise failure_of(str(error))

    def _stop(self) -> None:
        self.query.stop()
        if self._views is not None:
            self._views.close()
        if self._observation is not None:
            self._observation.wait_for_end(str(self.query.runId))
            self._observation.close()

    @property
    def metrics_port(self) -> int | None:
        """The port that serves metrics until the application is stopped, or None if there is none."""
        return None if self._observation is None else self._observation.port

    @property
    def metrics_url(self) -> str | None:
        """The URL at which these metrics are served, or None if there are none."""
        return None if self._observation is None else self._observation.url

    def progress(self) -> Progress | None:
        """The progress of the last completed batch, or None before the first."""
        found = self.query.lastProgress
        return None if found is None else read_progress(found)

    def recent_progress(self) -> list[Progress]:
        """The progress of all batches that Spark keeps (``spark.sql.streaming.numRecentProgressUpdates``)."""
        return [read_progress(found) for found in self.query.recentProgress]

    def dropped_records(self) -> Mapping[str, int]:
        """How many records each node has dropped since the checkpoint was made.

        These are late records, and records without a key or value where one is needed. Nodes have the names
        that `describe` shows.
        """
        return self._dropped.totals()

    @overload
    def store(self, name: str) -> View[Any, Any]: ...

    @overload
    def store(self, name: str, kind: type[W]) -> W: ...

    def store(self, name: str, kind: type[View[Any, Any]] = View) -> View[Any, Any]:
        """Return a view to query a store: a `KeyValueView`, `VersionedView`, `WindowView` or `SessionView`.

        ``kind`` is that class, for type checkers: see `Views.store`. With the first call, this process begins
        to follow the logs of all stores, until the application is stopped; the views hold committed data.
        docs/streams-queries.md describes the guarantees. Raises UnknownStore, StoreNotQueryable, and
        UnsupportedQuery if the store is of another kind.
        """
        if self._views is None:
            servers = self._client["bootstrap.servers"]
            views = Views(self._topology, bootstrap_servers=servers, properties=self._client)
            views.find(name)
            views.start()
            self._views = views
        return self._views.store(name, kind)

    def describe(self) -> str:
        """Describe the topology in the format of Kafka Streams."""
        return describe(self._topology)


def start(
    topology: Topology,
    *,
    bootstrap_servers: str,
    checkpoint: str | Path,
    spark: SparkSession | None = None,
    guarantee: Guarantee = "exactly-once",
    until: Literal["stopped", "drained"] = "stopped",
    profile: ProfileName = "steady",
    shuffle_partitions: int | None = None,
    commit_interval_ms: int | None = None,
    tick_ms: int = 1000,
    options: Mapping[str, str] | None = None,
    metrics_port: int | None = None,
    metrics_host: str = DEFAULT_HOST,
    metrics_properties: Mapping[str, str] | None = None,
    watchers: Sequence[Watcher] = (),
) -> RunningApp:
    """Run a topology as one Spark query.

    Args:
        checkpoint: a directory that driver and executors share, from which the application continues. With a
            new one it continues from its group's offsets, and rebuilds its stores from their changelogs.
        spark: the session whose executors run the application; None means a local session.
        guarantee: how often a record's results reach the topics if something fails.
        until: ``drained`` ends the run when everything that the topics hold now has been processed.
        profile: sets the session that is built here, and the next two and ``options`` if they are not given.
        shuffle_partitions: the number of tasks that work on state at the same time; None means one for each
            core. A checkpoint keeps the number that it was created with.
        commit_interval_ms: the shortest time between the starts of batches; with 0 a batch starts as soon as
            there are records.
        tick_ms: the interval at which timers see time pass while there are no records.
        options: options of the ``penstock`` source and sink, such as ``kafka.…`` or ``maxOffsetsPerTrigger``.
        metrics_port: the port that serves Prometheus metrics; with 0 a free one, see
            `RunningApp.metrics_port`.
        metrics_host: the address to serve them at.
        metrics_properties: who may read them, and the certificate for HTTPS.
        watchers: receive each batch's progress; `stop` waits until they have received the last one.

    If another driver runs the application, with this checkpoint or another, it publishes nothing more (with
    exactly-once delivery only) and fails with RunFenced at its next batch.

    Raises MissingTopics, CoPartitioningError, InternalTopicMismatch, CheckpointMismatch, CheckpointOutdated,
    GroupInUse, ConfigError, MetricsPortTaken, InvalidAccess.
    """
    if not topology.source_topics():
        raise TopologyError(f"{topology.application} reads no topic: there is nothing to run")
    chosen = PROFILES[profile]
    session = spark if spark is not None else build_session(topology.application, profile=profile)
    session = session.newSession()
    given = with_defaults(chosen, topology, options or {})
    properties = client_properties(bootstrap_servers, given)
    client = ClientConfig.from_properties(properties)
    where = Location.open(str(checkpoint), "checkpoint")
    tasks = shuffle_partitions or chosen.shuffle_partitions
    tasks = tasks or tasks_max(session)
    kept = Kept(topology.application, has_state(topology), tasks)
    tasks = continue_from(where, kept).shuffle_partitions
    with Cluster(client) as cluster:
        counts = prepare_topics(cluster, topology)
        topics = {
            name: counts[name]
            for name in topology.source_topics().keys() - shuffled_topics(topology) - topology.frames.keys()
        }

        def planned(starting: str) -> StreamsPlan:
            own = _subscription(topology, topics, starting)
            source = source_options(bootstrap_servers, given, own, session.sparkContext.defaultParallelism)
            sink = sink_options(bootstrap_servers, given, guarantee, str(checkpoint))
            return StreamsPlan(topology, dict(counts), tasks, source, sink, tick_ms)

        plan = planned("committed")  # reports invalid options before another driver is replaced
        driver = _claim(cluster, plan, where) if plan.sink.is_exactly_once else None
        if is_new(where):
            prepare_group(cluster, topology, topics)
        if topology.frames:
            plan = planned(_pinned_start(where, cluster, topology, topics))
    plan = replace(plan, driver=driver)
    dropped = DroppedCount(str(checkpoint), topology.application)
    interval_ms = chosen.commit_interval_ms if commit_interval_ms is None else commit_interval_ms
    if metrics_port is None and not watchers:
        query = _query(plan, session, where, until, interval_ms)
        return RunningApp(topology, query, session, dropped, client=properties)
    watch = observe(
        session,
        *watchers,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        metrics_properties=metrics_properties,
    )
    try:
        if topology.errors.dead_letter_topic is not None:
            watch.metrics.count_dead_letters(topology.application, DeadLetterCount(str(checkpoint)).total)
        watch.metrics.count_dropped(lambda: {topology.application: dropped.totals()})
        query = _query(plan, session, where, until, interval_ms)
        return RunningApp(topology, query, session, dropped, watch, client=properties)
    except BaseException:
        watch.close()
        raise


def _subscription(topology: Topology, topics: Mapping[str, int], starting: str) -> dict[str, str]:
    """Return the source options that the application itself sets."""
    return {
        # An application that reads only DataFrames doesn't use its subscription.
        "subscribe": ",".join(sorted(topics)) or next(iter(topology.frames)),
        "group.id": topology.application,
        "startingOffsets": starting,
    }


def _claim(cluster: Cluster, plan: StreamsPlan, where: Location) -> Driver | None:
    """Claim the application, so that no other driver publishes a batch of it, whatever its checkpoint.

    The group's offsets thus stay where they are. Returns None if no topic is known that the application reads
    or writes; then only drivers with this checkpoint can be distinguished. Raises CheckpointOutdated,
    CheckpointMismatch, ClientError.
    """
    topology = plan.topology
    owned = {topology.topic(name) for name in topology.repartitions}
    topics = topology.source_topics().keys() - owned - topology.frames.keys()
    topics = topics or written_topics(topology) - owned
    if not topics:
        return None
    driver = Driver(
        topology.application, plan.start_id, min(topics), platform.node(), str(plan.sink.checkpoint)
    )
    try:
        query_id = None if is_new(where) else Checkpoint(where).query_id()
    except CheckpointError as error:
        raise CheckpointMismatch(str(error)) from None
    Ownership(cluster, driver, plan.sink.transaction.timeout_ms).claim(query_id)
    return driver


def _pinned_start(where: Location, cluster: Cluster, topology: Topology, topics: Mapping[str, int]) -> str:
    """Return the group's offsets at the last start before this checkpoint's first batch.

    A source that starts at its group's offsets begins with a batch that only fixes its start. Beside a
    DataFrame's rows, that batch would leave the tables that they are joined with empty.
    """
    file = where.child("penstock", "starting-offsets.json")
    data = None if is_new(where) else file.read()
    if data is None:
        partitions = [TopicPartition(name, n) for name, count in topics.items() for n in range(count)]
        group = ConsumerGroup(cluster, topology.application)
        committed = cluster.retry(lambda: group.committed(partitions))
        data = json.dumps(to_json({tp: found.offset for tp, found in committed.items()})).encode()
        file.write(data)
    return data.decode()


def _query(
    plan: StreamsPlan,
    session: SparkSession,
    where: Location,
    until: str,
    commit_interval_ms: int,
) -> StreamingQuery:
    text = plan.to_text()
    rows = packed_rows(plan, session, text)
    with active(session):
        writer = (
            rows.writeStream.format(NAME)
            .queryName(plan.topology.application)
            .outputMode("append")
            .option(PLAN, text)
            .option("checkpointLocation", checkpoint_option(session, where))
        )
        if until == "drained":
            writer = writer.trigger(availableNow=True)
        elif commit_interval_ms:
            writer = writer.trigger(processingTime=f"{commit_interval_ms} milliseconds")
        return writer.start()
