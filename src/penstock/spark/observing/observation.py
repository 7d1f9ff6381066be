"""`observe`: pass the reports of a session's queries to watchers, and serve their metrics to Prometheus."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final

from penstock.client.settings import resolved
from penstock.errors import PenstockError
from penstock.monitoring.process import registry_of
from penstock.monitoring.server import METRICS_PATH, MonitoringServer
from penstock.security.access.settings import AccessSettings
from penstock.spark.observing.query_metrics import QueryMetrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.observing.listener import Watcher, WatchingListener

DEFAULT_HOST: Final = "127.0.0.1"
REPORT_TIMEOUT_S: Final = 5.0


class MetricsPortTaken(PenstockError, OSError):
    """Another process listens on the port for metrics."""


class MetricsEndpoint(MonitoringServer):
    """The server of a session's metrics and of its process at `url`.

    ``properties`` decide who may read them, and whether the server speaks HTTPS, under the names that all
    HTTP servers have (docs/security.md). Raises MetricsPortTaken, OSError, InvalidAccess, ConfigError.
    """

    def __init__(
        self,
        metrics: QueryMetrics,
        port: int,
        host: str = DEFAULT_HOST,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        settings = AccessSettings.from_configs(resolved(properties or {}).get)
        try:
            super().__init__(registry_of(metrics), host, port, settings=settings)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise MetricsPortTaken(
                f"the port for metrics, {host}:{port}, is in use: expected a free one, or 0 for any"
            ) from None
        self.url = f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}{METRICS_PATH}"


class Observation:
    """The result of `observe`.

    ``metrics`` may also be registered with your own prometheus-client registry.
    """

    def __init__(
        self,
        session: SparkSession,
        listener: WatchingListener,
        metrics: QueryMetrics,
        endpoint: MetricsEndpoint | None,
    ) -> None:
        self.metrics = metrics
        self._session = session
        self._listener: WatchingListener | None = listener
        self._endpoint = endpoint

    @property
    def port(self) -> int | None:
        """The port that serves metrics, or None if there is none."""
        return None if self._endpoint is None else self._endpoint.port

    @property
    def url(self) -> str | None:
        """The URL of the metrics, or None if none are served."""
        return None if self._endpoint is None else self._endpoint.url

    def __enter__(self) -> Observation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait_for_end(self, run_id: str, timeout_s: float = REPORT_TIMEOUT_S) -> bool:
        """Wait until Spark has reported all batches of an ended query, which it does asynchronously."""
        return self.metrics.wait_for_end(run_id, timeout_s)

    def close(self) -> None:
        """Stop watching and serving. Calling it twice does no harm."""
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.close()
        listener, self._listener = self._listener, None
        if listener is not None:
            self._session.streams.removeListener(listener)


def observe(
    spark: SparkSession,
    *watchers: Watcher,
    metrics_port: int | None = None,
    metrics_host: str = DEFAULT_HOST,
    metrics_properties: Mapping[str, str] | None = None,
) -> Observation:
    """Watch the queries of a session that start from now on.

    Args:
        watchers: receive starts, batches and ends, in addition to the metrics.
        metrics_port: the port that serves Prometheus metrics; with 0 a free one, available as the result's
            ``port``.
        metrics_host: the address to serve them at; ``0.0.0.0`` for all.
        metrics_properties: who may read them, and the certificate for HTTPS, such as
            ``{"ssl.keystore.location": …, "authentication.method": "BASIC",
            "penstock.authentication.users": …}`` (docs/security.md).

    Raises MetricsPortTaken, OSError, InvalidAccess, ConfigError.
    """
    from penstock.spark.observing.listener import WatchingListener

    metrics = QueryMetrics()
    endpoint = None
    if metrics_port is not None:
        endpoint = MetricsEndpoint(metrics, metrics_port, metrics_host, metrics_properties)
    listener = WatchingListener(metrics, *watchers)
    spark.streams.addListener(listener)
    return Observation(spark, listener, metrics, endpoint)
