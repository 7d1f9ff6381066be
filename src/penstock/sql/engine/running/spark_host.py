"""The host that runs the engine's queries on Spark: one Spark query runs all queries of a service."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client.registry import Collector

from penstock.client.config import ClientConfig
from penstock.client.settings import property_names
from penstock.registry.client.errors import RegistryUnreachable
from penstock.spark.hosting import Host, MemberState, Standing, Trouble
from penstock.spark.launching.session import build_session
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.service_topics import make_command_topic
from penstock.sql.engine.running.host import Blame, QueryActivity, QueryFailure, QueryState, QueryStatus
from penstock.sql.formats.settings import registry_of
from penstock.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATUSES: Final = {
    Standing.RUNNING: QueryStatus.RUNNING,
    Standing.PAUSED: QueryStatus.PAUSED,
    Standing.FAILED: QueryStatus.ERROR,
}
_NICENESS: Final = 5
"""The niceness of Spark on the server's machine: answers take milliseconds, so batches yield to them."""


_OF_USERS: Final = (
    "CoPartitioningError",
    "DeliveryFailed",
    "MissingTopics",
    "RecordFailed",
    "RecordTooLarge",
    "TopicDeleted",
    "TopologyChanged",
    "UnknownPartition",
)
"""Errors that records or topics cause, and that no retry can cure."""


class SparkHost:
    """A `penstock.sql.engine.running.host.QueryHost` that uses a `penstock.spark.hosting.Host`."""

    def __init__(self, host: Host, session: SparkSession) -> None:
        self.host = host
        self._session = session

    @classmethod
    def start(
        cls,
        config: EngineConfig,
        checkpoint: str | Path,
        master: str = "local[*]",
        log_file: Path | None = None,
    ) -> SparkHost:
        """Start the host with a Spark session of its own, which ends with the host.

        Spark's output goes to ``log_file``.
        Raises JavaNotFound, CheckpointMismatch, CheckpointOutdated, ConfigError, ClientError.
        """
        name = f"_confluent-ksql-{config.service_id}"
        make_command_topic(config)  # the host keeps its markers in this topic
        session = build_session(
            name,
            master,
            profile="low-latency",
            log_file=log_file,
            own_process_group=True,
            share_classes=True,
            niceness=_NICENESS,
        )
        known = property_names(ClientConfig)
        retry = config.retry_backoff
        options = {
            f"kafka.{key}": value
            for key, value in config.client_properties.items()
            if key in known and key != "bootstrap.servers"
        }
        try:
            host = Host.start(
                name,
                bootstrap_servers=config.bootstrap_servers,
                topic=config.command_topic,
                checkpoint=checkpoint,
                spark=session,
                options=options,
                registry=registry_of(config.values.registry()),
                retry_s=retry.pause_s,
            )
        except BaseException:
            session.stop()
            raise
        return cls(host, session)

    def add(self, query_id: str, topology: Topology, *, paused: bool = False) -> None:
        self.host.add(query_id, topology, paused=paused)

    def pause(self, query_id: str) -> None:
        self.host.pause(query_id)

    def resume(self, query_id: str) -> None:
        self.host.resume(query_id)

    def remove(self, query_id: str) -> None:
        self.host.remove(query_id)

    def wait_until_gone(self, timeout_s: float) -> Collection[str]:
        return self.host.wait_until_gone(timeout_s)

    def wait_until_buried(self, timeout_s: float) -> Collection[str]:
        return self.host.wait_until_buried(timeout_s)

    def retain(self, query_ids: Collection[str]) -> None:
        self.host.retain(query_ids)

    def states(self) -> Mapping[str, QueryState]:
        trouble = self.host.trouble
        return {name: _state(each, trouble) for name, each in self.host.states().items()}

    def activity(self) -> Mapping[str, QueryActivity]:
        found = self.host.activity().items()
        return {name: QueryActivity(each.read, each.written) for name, each in found}

    @property
    def metrics(self) -> Collector:
        return self.host.metrics

    def close(self) -> None:
        self.host.close()
        self._session.stop()


def _state(member: MemberState, trouble: Trouble | None) -> QueryState:
    """The engine's view of a member's state. ``trouble`` says why no query runs now, if that is so."""
    status = _STATUSES[member.standing]
    failures = [QueryFailure(each.at_ms, each.error, _blame(each.error)) for each in member.troubles]
    if status is QueryStatus.ERROR and not failures:  # the failure is from an earlier run of the host
        failures.append(QueryFailure(0, member.error, _blame(member.error)))
    if trouble is not None and status is QueryStatus.RUNNING:
        status = QueryStatus.ERROR
        failures.append(QueryFailure(trouble.at_ms, trouble.error, Blame.SYSTEM))
    return QueryState(status, tuple(failures))


def _blame(error: str) -> Blame:
    if RegistryUnreachable.__name__ in error:
        return Blame.SYSTEM
    return Blame.USER if error.startswith(_OF_USERS) else Blame.UNKNOWN
