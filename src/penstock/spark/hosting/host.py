"""The host: starts the query, and restarts it when a member fails."""

from __future__ import annotations

import logging
import platform
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import ConsumerGroup
from penstock.registry.client.config import RegistryConfig
from penstock.spark.hosting.datasource import HOST, NAME, HostDataSource
from penstock.spark.hosting.failures import read_failure
from penstock.spark.hosting.membership import Activity, Membership, MemberState
from penstock.spark.hosting.operator import HOSTED, HostOperator
from penstock.spark.hosting.plan import HostPlan, MemberPlan
from penstock.spark.hosting.roster import Standing
from penstock.spark.hosting.troubles import Trouble
from penstock.spark.launching.profiles import PROFILES, ProfileName
from penstock.spark.launching.session import build_session
from penstock.spark.sink.checkpoint import Checkpoint, CheckpointError
from penstock.spark.sink.locations import Location
from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.ownership import Driver, Ownership
from penstock.spark.source.checkpointed import JsonOffsets
from penstock.spark.source.offsets import to_json
from penstock.spark.streams.planning.options import sink_options, source_options, with_defaults
from penstock.spark.streams.planning.plan import shuffled_topics
from penstock.spark.streams.query.session import active, checkpoint_option, prepare_session, tasks_max
from penstock.spark.streams.running.checkpoint import CheckpointMismatch, Kept, continue_from, is_new
from penstock.spark.streams.running.preparation import (
    client_properties,
    prepare_group,
    prepare_topics,
)
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.observing.query_metrics import QueryMetrics

log = logging.getLogger(__name__)

BATCH_RECORDS: Final = 100_000
"""The default limit of one member's records in a batch, so that a lagging member doesn't delay the others."""
_LOOK_S: Final = 0.5
"""The interval at which the host checks its query and its members."""
_ACKNOWLEDGED_S: Final = 0.01
"""The interval at which a waiting caller checks its condition."""
_BURIED_S: Final = 30.0
"""How long `Host.add` waits until a removed member of the same name is deleted."""
_RESTART_PAUSE_S: Final = 1.0
"""The pause before the query's first restart; each further pause is twice as long."""
_RESTART_PAUSE_MAX_S: Final = 60.0
"""The longest pause before a restart. The pause is short again once the query has run this long."""


class HostStopped(RuntimeError):
    """The host no longer runs, because another one has taken over or it was closed."""


class Host:
    """A host, which runs topologies side by side with exactly-once semantics. Thread safe.

    `start` creates it. A name identifies each member; the application id of its topology names its group and
    its internal topics.
    """

    def __init__(
        self,
        plan: HostPlan,
        session: SparkSession,
        properties: Mapping[str, str],
        options: Mapping[str, str],
        profile: ProfileName,
        shuffle_partitions: int,
        tick_ms: int,
        retry_s: Callable[[int], float],
    ) -> None:
        self._plan = plan
        self._session = session
        self._client = ClientConfig.from_properties(properties)
        self._servers = properties["bootstrap.servers"]
        self._options = options
        self._profile = PROFILES[profile]
        self._shuffle_partitions = shuffle_partitions
        self._tick_ms = tick_ms
        self._where = plan.location
        self._members = Membership(self._where, retry_s)
        self._stopping = threading.Event()
        # Imported here: every worker imports this module, and an executor may lack what metrics need.
        from penstock.spark.observing.observation import observe

        self._observation = observe(session)
        self._observation.metrics.count_dropped(self._dropped)
        self.trouble: Trouble | None = None
        """The reason why the query is not running, if it is not and no member caused it."""
        self._is_fenced = False
        try:
            self._query: StreamingQuery | None = self._start_query()
        except BaseException:
            self._observation.close()
            raise
        self._watcher = threading.Thread(target=self._watch, name="penstock-host", daemon=True)
        self._watcher.start()

    @classmethod
    def start(
        cls,
        application: str,
        *,
        bootstrap_servers: str,
        topic: str,
        checkpoint: str | Path,
        spark: SparkSession | None = None,
        profile: ProfileName = "low-latency",
        shuffle_partitions: int | None = None,
        tick_ms: int = 1000,
        options: Mapping[str, str] | None = None,
        registry: RegistryConfig | None = None,
        retry_s: Callable[[int], float] = lambda failures: min(15.0 * 2 ** (failures - 1), 900.0),
    ) -> Host:
        """Start a host that runs the members in the checkpoint.

        It replaces a running host of the same ``application``, which then publishes nothing more.

        Args:
            application: names the host; it is its transactional id and the name of the Spark query.
            topic: a topic that exists as long as the host: markers are kept as offsets of its partition 0.
            checkpoint: a directory that driver and executors share.
            spark: the session whose executors run the host; None means a local session.
            profile: the profile of a session built here, and of the members' sources.
            shuffle_partitions: the number of tasks that work on state at the same time; None means one for
                each core. A checkpoint keeps the number that it was created with.
            options: options of the ``penstock`` source and sink.
            registry: the credentials for the schema registry that members use; the checkpoint has none.
            retry_s: returns how long a member pauses after this many failures in a row.

        Raises CheckpointMismatch, CheckpointOutdated, ConfigError and ClientError.
        """
        session = (spark or build_session(application, profile=profile)).newSession()
        given = dict(options or {})
        properties = client_properties(bootstrap_servers, given)
        where = Location.open(str(checkpoint), "checkpoint")
        tasks = shuffle_partitions or tasks_max(session)
        tasks = continue_from(where, Kept(application, True, tasks)).shuffle_partitions
        sink = sink_options(bootstrap_servers, given, "exactly-once", str(checkpoint))
        driver = _claim(application, topic, properties, sink, where)
        plan = HostPlan(str(checkpoint), session.sparkContext.defaultParallelism, sink, driver, registry)
        return cls(plan, session, properties, given, profile, tasks, tick_ms, retry_s)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop after the current batch or abandon it; either way the next start continues exactly once."""
        self._stopping.set()
        self._watcher.join()  # it may be about to restart the query
        if self._query is not None:
            self._query.stop()
        self._observation.close()

    @property
    def metrics(self) -> QueryMetrics:
        """The metrics of the query, for a prometheus-client registry. Restarts for any reason count."""
        return self._observation.metrics

    # Members

    def add(self, name: str, topology: Topology, *, paused: bool = False) -> None:
        """Run a member from the next batch on; a known name continues at its position with this topology.

        Raises TopologyError if the topology can't be hosted or a member of this name is still being removed;
        also MissingTopics, CoPartitioningError, InternalTopicMismatch, GroupInUse, ConfigError, ClientError
        and HostStopped.
        """
        if topology.frames:
            raise TopologyError(f"{topology.application} reads DataFrames, but a host reads only topics")
        self._await_burial(name)
        with self._members.changing:
            self._require_running()
            standing = Standing.PAUSED if paused else Standing.RUNNING
            self._members.add(name, partial(self._prepared, topology), standing)

    def _prepared(self, topology: Topology, number: int) -> tuple[MemberPlan, JsonOffsets]:
        """Return the plan and the position where a new member begins: its group's offsets."""
        given = dict(self._options)
        if not any(option.lower() == "maxoffsetspertrigger" for option in given):
            given["maxOffsetsPerTrigger"] = str(BATCH_RECORDS)
        with Cluster(self._client) as cluster:
            counts = prepare_topics(cluster, topology)
            read = topology.source_topics().keys() - shuffled_topics(topology)
            prepare_group(cluster, topology, {name: counts[name] for name in read})
            partitions = [TopicPartition(name, n) for name in sorted(read) for n in range(counts[name])]
            group = ConsumerGroup(cluster, topology.application)
            committed = cluster.retry(lambda: group.committed(partitions))
        begin = to_json({tp: found.offset for tp, found in committed.items()})
        own = {"subscribe": ",".join(sorted(read)), "startingOffsets": "earliest"}
        # The source has no limit on tasks, because the host distributes the ranges of all its members.
        source = source_options(
            self._servers,
            with_defaults(self._profile, topology, given) | {"maxPartitions": "1000000"},
            own,
            1,
        )
        plan = MemberPlan(
            topology,
            dict(counts),
            self._shuffle_partitions,
            source,
            self._plan.sink,
            self._tick_ms,
            number=number,
        )
        return plan, dict(begin)

    def pause(self, name: str) -> None:
        """Pause a member after the current batch. Raises UnknownMember, HostStopped."""
        self._stand(name, Standing.PAUSED)

    def resume(self, name: str) -> None:
        """Resume a member at its position, or retry one that failed. Raises UnknownMember, HostStopped."""
        self._stand(name, Standing.RUNNING)

    def _stand(self, name: str, standing: Standing) -> None:
        with self._members.changing:
            self._require_running()
            self._members.stand(name, standing)

    def remove(self, name: str) -> None:
        """Remove a member after the current batch; its state, internal topics and group are then deleted.

        Raises UnknownMember, HostStopped.
        """
        with self._members.changing:
            self._require_running()
            self._members.remove(name)

    def wait_until_gone(self, timeout_s: float) -> tuple[str, ...]:
        """Wait until no running batch includes a removed member, so that none writes any more.

        Returns the names of removed members for which this is not certain at the timeout.
        """
        removed = self._members.removed
        return () if not removed or self._waited(self._members.is_followed, timeout_s) else removed

    def wait_until_buried(self, timeout_s: float) -> tuple[str, ...]:
        """Wait until all removed members are deleted, and return those that are not at the timeout."""
        self._waited(lambda: not self._members.removed, timeout_s)
        return self._members.removed

    def _await_burial(self, name: str) -> None:
        """Wait until a removed member of this name is deleted, since the next one would take over its topics.

        Raises TopologyError.
        """
        if not self._waited(lambda: name not in self._members.removed, _BURIED_S):
            raise TopologyError(f"{name} was removed and is still being deleted: try again later")

    def _waited(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Return whether the condition held before the timeout and before the host was closed.

        While the checkpoint can't be read, the condition does not hold.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                if holds():
                    return True
            except OSError as error:
                log.warning("checkpoint not readable, checking again error=%s", error)
            if time.monotonic() > deadline_s or self._stopping.wait(_ACKNOWLEDGED_S):
                return False

    def retain(self, names: Collection[str]) -> None:
        """Remove all members except ``names``. Raises HostStopped."""
        with self._members.changing:
            for name in self._members.states().keys() - set(names):
                self.remove(name)

    def states(self) -> Mapping[str, MemberState]:
        return self._members.states()

    def activity(self) -> Mapping[str, Activity]:
        """Return the activity of each member. Raises OSError."""
        return self._members.activity()

    def _dropped(self) -> Mapping[str, Mapping[str, int]]:
        """Return the dropped records by member and node, for metrics; none while they can't be read."""
        try:
            return {name: activity.dropped for name, activity in self.activity().items()}
        except OSError as error:
            log.warning("number of dropped records not readable error=%s", error)
            return {}

    def wait_until_read(self) -> None:
        """Wait until the query has processed everything that the members' topics hold now."""
        query = self._query
        if query is not None:
            query.processAllAvailable()

    def _require_running(self) -> None:
        if self._is_fenced or self._stopping.is_set():
            raise HostStopped(self._reason or "the host was closed")

    @property
    def _reason(self) -> str:
        return "" if self.trouble is None else self.trouble.error

    # The query

    def _start_query(self) -> StreamingQuery:
        session, text = self._session, self._plan.to_text()
        prepare_session(session, self._shuffle_partitions)
        with active(session):
            session.dataSource.register(HostDataSource)
            rows = session.readStream.format(NAME).option(HOST, text).load()
            rows = rows.groupBy("group").transformWithState(HostOperator(text), HOSTED, "Append", "None")
            if self._shuffle_partitions > 1:  # members join the running query, so it shuffles for any of them
                rows = rows.repartition(self._shuffle_partitions, "group")
            writer = rows.writeStream.format(NAME).queryName(self._plan.driver.application)
            writer = writer.outputMode("append").option(HOST, text)
            return writer.option("checkpointLocation", checkpoint_option(session, self._where)).start()

    def _watch(self) -> None:
        """Restart an ended query, resume failed members when they are due, and delete removed ones."""
        pause_s, started_s = _RESTART_PAUSE_S, time.monotonic()
        while not self._stopping.wait(_LOOK_S):
            try:
                query = self._query
                if query is not None and query.isActive:
                    if time.monotonic() - started_s > _RESTART_PAUSE_MAX_S:
                        pause_s = _RESTART_PAUSE_S
                    self._members.retry()
                    self._members.bury(self._plan.credentials)
                    self.trouble = None
                    continue
                if not self._is_member_at_fault(query):
                    if self._is_fenced:
                        log.error("host stopped reason=%s", self._reason)
                        return
                    log.error("host's query failed, restarting pause_s=%.0f reason=%s", pause_s, self._reason)
                    if self._stopping.wait(pause_s):
                        return
                    pause_s = min(2 * pause_s, _RESTART_PAUSE_MAX_S)
                with self._members.changing:
                    if not self._stopping.is_set():
                        self._query, started_s, self.trouble = self._start_query(), time.monotonic(), None
            except Exception as error:  # the next round tries again
                self.trouble = Trouble.now(f"{type(error).__name__}: {error}")
                log.exception("host's checks failed, trying again")

    def _is_member_at_fault(self, query: StreamingQuery | None) -> bool:
        """Return whether a member caused the query to end, and if so mark that member as failed."""
        error = None if query is None else query.exception()
        if error is None:
            return False
        failure = read_failure(str(error))
        self._query, self._is_fenced = None, failure.is_fenced
        if failure.number is None:
            self.trouble = Trouble.now(failure.message)
            return False
        self._members.take_out(failure.number, failure.message)
        return True


def _claim(
    application: str, topic: str, properties: Mapping[str, str], sink: SinkOptions, where: Location
) -> Driver:
    driver = Driver(application, uuid.uuid4().hex, topic, platform.node(), str(sink.checkpoint))
    try:
        query_id = None if is_new(where) else Checkpoint(where).query_id()
    except CheckpointError as error:
        raise CheckpointMismatch(str(error)) from None
    with Cluster(ClientConfig.from_properties(properties)) as cluster:
        Ownership(cluster, driver, sink.transaction.timeout_ms).claim(query_id)
    return driver
