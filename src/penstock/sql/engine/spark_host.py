"""The engine's queries on Spark: all of a service in one Spark query."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.client.config import ClientConfig
from penstock.client.settings import property_names
from penstock.spark.hosting import Host, MemberState, Standing
from penstock.spark.session import build_session
from penstock.sql.engine.command_topic import make_topic
from penstock.sql.engine.config import EngineConfig
from penstock.sql.engine.hosting import QueryState, QueryStatus
from penstock.topology.graph import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATUSES: Final = {
    Standing.RUNNING: QueryStatus.RUNNING,
    Standing.PAUSED: QueryStatus.PAUSED,
    Standing.FAILED: QueryStatus.ERROR,
}
#: Of Spark on the server's own machine: who asks waits for milliseconds, a batch may take some more.
_NICENESS: Final = 5


class SparkHost:
    """`penstock.sql.engine.hosting.QueryHost` by `penstock.spark.hosting.Host`."""

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
        """A Spark session of its own, which ends with it. ``log_file``: for what Spark prints.

        Raises JavaNotFound, CheckpointMismatch, CheckpointOutdated, ConfigError, ClientError.
        """
        name = f"_confluent-ksql-{config.service_id}"
        make_topic(config)  # where the host keeps its markers
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

    def retain(self, query_ids: Collection[str]) -> None:
        self.host.retain(query_ids)

    def states(self) -> Mapping[str, QueryState]:
        trouble = self.host.trouble
        return {name: _state(each, trouble) for name, each in self.host.states().items()}

    def close(self) -> None:
        self.host.close()
        self._session.stop()


def _state(member: MemberState, trouble: str) -> QueryState:
    """``trouble``: why nothing runs at the moment, if that is so."""
    status, message = _STATUSES[member.standing], member.error
    if trouble and status is QueryStatus.RUNNING:
        return QueryState(QueryStatus.ERROR, trouble)
    return QueryState(status, message)
