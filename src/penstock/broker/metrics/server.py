"""Prometheus metrics and probes, served on `penstock.metrics.port` if that is set.

The hot path counts in plain integers, each where its work is done. A scrape reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.broker.metrics.authorizer_metrics import authorizer_metrics
from penstock.broker.metrics.cleaner_metrics import cleaner_metrics
from penstock.broker.metrics.cluster_metrics import Elections, cluster_metrics
from penstock.broker.metrics.group_metrics import group_metrics
from penstock.broker.metrics.mutation_metrics import mutation_metrics
from penstock.broker.metrics.probes import liveness_problem, readiness_problem
from penstock.broker.metrics.quota_metrics import client_quota_metrics, connection_quota_metrics
from penstock.broker.metrics.sasl_metrics import sasl_metrics
from penstock.broker.metrics.storage_metrics import storage_metrics
from penstock.broker.metrics.transaction_metrics import transaction_metrics
from penstock.monitoring.process import registry_of
from penstock.monitoring.server import MonitoringServer
from penstock.security.access.settings import TOKEN_SETTINGS, AccessSettings

if TYPE_CHECKING:
    from penstock.broker.metrics.host import MetricsHost
    from penstock.metadata.configs import BrokerConfig

_PREFIX: Final = "penstock.metrics."


class BrokerCollector(Collector):
    """The collector that reads the counters of one node at each scrape."""

    def __init__(self, host: MetricsHost) -> None:
        self._host = host
        self._elections = Elections(host.metadata, host.quorum)

    def collect(self) -> Iterable[Metric]:
        yield from self._requests()
        yield from self._connections()
        yield from self._log()
        yield from self._loop()
        yield from storage_metrics(self._host.logs, self._host.replicas)
        yield from group_metrics(self._host.groups)
        yield from cleaner_metrics(self._host.logs.cleaner, self._host.clock_ms())
        yield from transaction_metrics(self._host.transactions)
        yield from authorizer_metrics(self._host.authorization.authorizer)
        yield from sasl_metrics(self._host.sasl)
        now_ms = int(self._host.loop.time() * 1000)
        yield from mutation_metrics(self._host.mutation_quotas, now_ms)
        yield from client_quota_metrics(self._host.quotas, self._host.server, now_ms)
        yield from connection_quota_metrics(self._host.connection_quotas, now_ms)
        yield from cluster_metrics(self._host, self._elections)

    def _requests(self) -> Iterable[Metric]:
        requests = CounterMetricFamily("penstock_requests", "Requests handled.", labels=["api"])
        size = CounterMetricFamily("penstock_request_bytes", "Bytes of requests.", labels=["api"])
        errors = CounterMetricFamily(
            "penstock_request_failures", "Requests that ended in an unexpected error.", labels=["api"]
        )
        seconds = CounterMetricFamily(
            "penstock_request_handler_seconds", "Time in handlers on the event loop.", labels=["api"]
        )
        phases = CounterMetricFamily(
            "penstock_request_phase_seconds",
            "Time of requests by phase: queue, local (handler), remote (wait for others), send (to client).",
            labels=["api", "phase"],
        )
        for key, stats in list(self._host.dispatcher.stats.items()):
            label = [key.name.lower()]
            requests.add_metric(label, stats.requests)
            size.add_metric(label, stats.request_bytes)
            errors.add_metric(label, stats.errors)
            seconds.add_metric(label, stats.handler_ns / 1e9)
            for phase, spent_ns in (
                ("queue", stats.queue_ns),
                ("local", stats.handler_ns),
                ("remote", stats.remote_ns),
                ("send", stats.send_ns),
            ):
                phases.add_metric([*label, phase], spent_ns / 1e9)
        return [requests, size, errors, seconds, phases]

    def _connections(self) -> Iterable[Metric]:
        server, stats = self._host.server, self._host.server.stats
        tls_mode = GaugeMetricFamily(
            "penstock_tls_mode",
            "1 for what encrypts TLS: the `kernel`, or the `process`. Absent without a listener with TLS.",
            labels=["mode"],
        )
        if self._host.tls.mode is not None:
            tls_mode.add_metric([self._host.tls.mode], 1)
        return [
            GaugeMetricFamily("penstock_connections", "Open connections.", len(server.connections)),
            CounterMetricFamily("penstock_connections_accepted", "Connections accepted.", stats.accepted),
            CounterMetricFamily(
                "penstock_connections_refused", "Connections refused because of a limit.", stats.refused
            ),
            CounterMetricFamily(
                "penstock_connections_idle_closed", "Connections closed as idle.", stats.idle_closed
            ),
            CounterMetricFamily(
                "penstock_hostile_frames", "Connections closed for invalid frames.", stats.hostile_frames
            ),
            CounterMetricFamily(
                "penstock_tls_handshakes", "Completed TLS handshakes of clients.", stats.handshakes
            ),
            CounterMetricFamily(
                "penstock_tls_handshakes_failed", "Failed TLS handshakes of clients.", stats.failed_handshakes
            ),
            tls_mode,
            GaugeMetricFamily(
                "penstock_request_memory_reserved_bytes",
                "Bytes reserved for requests that are still arriving.",
                server.request_memory.reserved_bytes,
            ),
        ]

    def _log(self) -> Iterable[Metric]:
        replicas = list(self._host.replicas)
        appended = CounterMetricFamily("penstock_appended_bytes", "Bytes appended.", labels=["topic"])
        end_offset = GaugeMetricFamily(
            "penstock_log_end_offset", "Log end offset.", labels=["topic", "partition"]
        )
        size = GaugeMetricFamily(
            "penstock_log_size_bytes", "Bytes of the log on disk.", labels=["topic", "partition"]
        )
        by_topic: dict[str, int] = {}
        for replica in replicas:
            labels = [replica.topic, str(replica.partition)]
            end_offset.add_metric(labels, replica.log.log_end_offset)
            size.add_metric(labels, replica.log.size_bytes)
            by_topic[replica.topic] = by_topic.get(replica.topic, 0) + replica.appended_bytes
        for topic, appended_bytes in by_topic.items():
            appended.add_metric([topic], appended_bytes)
        return [
            GaugeMetricFamily("penstock_replicas", "Replicas on this node.", len(replicas)),
            GaugeMetricFamily(
                "penstock_replicas_failed", "Replicas that are offline.", len(self._host.replicas.failed)
            ),
            appended,
            end_offset,
            size,
        ]

    def _loop(self) -> Iterable[Metric]:
        lag, purgatory, cold = self._host.loop_lag, self._host.purgatory, self._host.cold_reads
        return [
            GaugeMetricFamily("penstock_loop_lag_seconds", "Delay of the last timer.", lag.last_ms / 1000),
            GaugeMetricFamily(
                "penstock_loop_lag_max_seconds", "The longest turn of the event loop.", lag.max_ms / 1000
            ),
            CounterMetricFamily(
                "penstock_loop_slow_turns", "Turns of the event loop of more than 10 ms.", lag.slow_turns
            ),
            CounterMetricFamily(
                "penstock_loop_queued_turns",
                "Slow turns that waited for a processor, and took no more than 10 ms otherwise.",
                lag.queued_turns,
            ),
            CounterMetricFamily(
                "penstock_cold_reads", "Slices of logs that a worker read from the disk.", cold.reads
            ),
            CounterMetricFamily(
                "penstock_cold_read_bytes", "Bytes of logs that a worker read from the disk.", cold.read_bytes
            ),
            CounterMetricFamily(
                "penstock_damaged_reads", "Reads refused because the data on disk was damaged.", cold.damaged
            ),
            GaugeMetricFamily("penstock_fetches_waiting", "Fetches that wait for data.", purgatory.waiting),
            GaugeMetricFamily(
                "penstock_fetch_sessions", "Open fetch sessions.", len(self._host.fetch_sessions)
            ),
        ]


def access_settings(config: BrokerConfig) -> AccessSettings:
    """Read who may read the metrics of a node. Raises InvalidAccess.

    The settings of tokens are those of the node, without a prefix.
    """
    return AccessSettings.from_configs(
        lambda name: config.get(
            name if name in TOKEN_SETTINGS else f"{_PREFIX}{name.removeprefix('penstock.')}"
        )
    )


def serve(node: MetricsHost, host: str, port: int, settings: AccessSettings) -> MonitoringServer:
    """Serve the metrics and the probes of a node. Raises OSError, InvalidAccess."""
    return MonitoringServer(
        registry_of(BrokerCollector(node)),
        host,
        port,
        {"/healthz": partial(liveness_problem, node.loop), "/readyz": partial(readiness_problem, node)},
        settings,
    )
