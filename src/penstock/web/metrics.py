"""The metrics of a web application: its requests by endpoint, and the answer to Prometheus."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OTHER: Final = "other"
"""The label of requests to paths that do not exist: each path would be a series."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})

EndpointOf = Callable[[Scope], str]
"""Returns the endpoint of an answered request as a template of its path, or OTHER."""


class RequestMetrics(Collector):
    """The counters of one application's requests. `CountRequests` counts, on the event loop."""

    def __init__(self) -> None:
        self.answered: Counter[tuple[str, str, str]] = Counter()
        """Requests by endpoint, method and status."""
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        """The time until the answer began, by endpoint and method."""
        self.open = 0

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "penstock_http_requests", "Requests answered.", labels=["endpoint", "method", "code"]
        )
        for (endpoint, method, code), count in list(self.answered.items()):
            requests.add_metric([endpoint, method, code], count)
        seconds = CounterMetricFamily(
            "penstock_http_request_seconds",
            "Time from the arrival of requests to the beginning of their answers.",
            labels=["endpoint", "method"],
        )
        for (endpoint, method), total in list(self.seconds.items()):
            seconds.add_metric([endpoint, method], total)
        yield from (requests, seconds)
        yield GaugeMetricFamily(
            "penstock_http_requests_open", "Requests in progress, answers that stream included.", self.open
        )


class CountRequests:
    """Middleware that counts requests, those included that other middleware refuses."""

    def __init__(self, application: ASGIApp, metrics: RequestMetrics, endpoint_of: EndpointOf) -> None:
        self._application = application
        self._metrics = metrics
        self._endpoint_of = endpoint_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        metrics, started_s, has_begun = self._metrics, time.perf_counter(), False

        def count(status: int) -> None:
            nonlocal has_begun
            has_begun = True
            method = scope["method"] if scope["method"] in _METHODS else OTHER
            endpoint = self._endpoint_of(scope)
            metrics.answered[endpoint, method, str(status)] += 1
            metrics.seconds[endpoint, method] += time.perf_counter() - started_s

        async def count_and_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(message["status"])
            await send(message)

        metrics.open += 1
        try:
            await self._application(scope, receive, count_and_send)
        except Exception:
            if not has_begun:
                count(500)  # the application's outermost handler answers this
            raise
        finally:
            metrics.open -= 1


def answer_metrics(registry: CollectorRegistry, accept: str | None) -> Response:
    """Answer a request of Prometheus. Blocks as long as the collectors do."""
    encode, kind = choose_encoder(accept or "")
    return Response(encode(registry), media_type=kind)
