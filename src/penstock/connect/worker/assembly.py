"""Put a worker together from its properties, and start it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final

from penstock.client.admin.brokers import describe_cluster
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.client.settings import from_properties
from penstock.connect.configs.worker import parse_distributed
from penstock.connect.errors import ConnectError
from penstock.connect.herding.distributed.herder import DistributedHerder
from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.plugins.plugin import Plugin
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.shipped import shipped_plugins
from penstock.connect.providers.transformer import resolved_worker, worker_transformer
from penstock.connect.rest.server import RestServer
from penstock.connect.rest.settings import RestSettings
from penstock.connect.tasks.metrics import TaskCollector
from penstock.connect.tasks.parts import WorkerSettings
from penstock.connect.tasks.settings import OffsetSettings
from penstock.connect.validation.connector_validation import ConnectorValidator
from penstock.connect.worker.catalog import WorkerCatalog
from penstock.connect.worker.clients import Clients
from penstock.connect.worker.metrics import WorkerCollector
from penstock.connect.worker.offset_stores import OffsetStores
from penstock.connect.worker.parts import Parts
from penstock.connect.worker.properties import (
    herder_settings,
    is_exactly_once,
    with_defaults,
    worker_offset_topic,
)
from penstock.connect.worker.runtime import RuntimeSettings, WorkerRuntime
from penstock.monitoring.process import registry_of

log = logging.getLogger(__name__)

_READY_S: Final = 120.0
_LOOK_S: Final = 0.02


class Worker:
    """A worker that runs in threads of this process until it is closed."""

    def __init__(self, herder: DistributedHerder, server: RestServer) -> None:
        self.herder = herder
        self._server = server

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URL of the first listener of the REST API."""
        return self._server.urls[0]

    @property
    def advertised_url(self) -> str:
        """The URL at which other workers reach this one."""
        return self._server.advertised_url

    def wait_until_ready(self, timeout_s: float = _READY_S) -> None:
        """Return once the worker is in its group.

        Raises the error that has ended it before, and TimeoutError.
        """
        deadline_s = time.monotonic() + timeout_s
        while not self.herder.is_ready:
            if self.herder.failure is not None:
                raise self.herder.failure
            if time.monotonic() >= deadline_s:
                raise TimeoutError(f"the worker is not ready after {timeout_s:g} s: {self.herder.stage}")
            time.sleep(_LOOK_S)

    def join(self) -> None:
        """Wait until the worker is closed. Raises the error that has ended it before."""
        self.herder.join()

    def close(self) -> None:
        """Stop all connectors and tasks, leave the group, and close the REST API."""
        try:
            self.herder.close()
        finally:
            self._server.close()


def start(properties: Mapping[str, str], plugins: Iterable[Plugin] = ()) -> Worker:
    """Start a worker. Its REST API answers at once; `Worker.herder.is_ready` says that it is in its group.

    Args:
        properties: those of a distributed worker of Kafka Connect; only ``bootstrap.servers`` is required.
        plugins: plugins besides those of installed packages.

    Raises:
        ConfigInvalid: a property is missing or not valid.
        ConnectError: the brokers do not answer.
        OSError: a listener's address cannot be used.
    """
    known = Plugins([*shipped_plugins(), *plugins])
    given = resolved_worker(known, with_defaults(properties))
    values = parse_distributed(given, known.class_name)
    client = ClientConfig.from_properties(given)
    cluster_id = _cluster_id(client)
    rest = RestSettings.from_values(values, given)
    workers = WorkerClient(rest.client_tls())
    validator = ConnectorValidator(known, given)
    transformer = worker_transformer(known, given)
    server = RestServer(rest, workers)
    try:
        settings = herder_settings(values, given, server.advertised_url, server.worker_id)
        offsets = from_properties(OffsetSettings, given)
        is_eos = is_exactly_once(values)
        runtime = WorkerRuntime(
            RuntimeSettings(
                group_id=values["group.id"],
                tasks=WorkerSettings(offsets=offsets, topic_creation=values["topic.creation.enable"]),
                stop_timeout_s=values["task.shutdown.graceful.timeout.ms"] / 1000,
                exactly_once=is_eos,
            ),
            Parts(known, given, transformer),
            Clients(given, validator.policy),
            OffsetStores(
                client,
                worker_offset_topic(values, given),
                offsets.flush_timeout_ms / 1000,
                exactly_once=is_eos,
            ),
        )
        catalog = WorkerCatalog(validator, transformer)
        herder = DistributedHerder(client, settings, runtime, catalog, cluster_id, workers)
        worker_metrics = WorkerCollector(
            runtime.startups,
            runtime.running_connectors,
            lambda: len(runtime.task_metrics()),
            herder.membership,
        )
        server.start(herder, registry_of(worker_metrics, TaskCollector(runtime.task_metrics)))
        herder.start()
    except BaseException:
        server.close()
        raise
    log.info("the worker has started group=%s url=%s", settings.group.group_id, settings.url)
    return Worker(herder, server)


def _cluster_id(client: ClientConfig) -> str:
    try:
        with Cluster(client) as cluster:
            return describe_cluster(cluster).cluster_id
    except ClientError as error:
        raise ConnectError(
            f"the brokers at {client.servers_text} do not tell the id of their cluster: {error}"
        ) from error
