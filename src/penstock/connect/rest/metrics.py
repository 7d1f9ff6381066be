"""The endpoint /metrics, which Kafka Connect does not have: its metrics are Java's beans."""

from __future__ import annotations

from anyio import to_thread
from prometheus_client import CollectorRegistry
from starlette.responses import Response

from penstock.connect.rest.asked import Asked
from penstock.connect.rest.routing import Endpoint
from penstock.security.access.roles import Role
from penstock.web.metrics import answer_metrics


class Metrics:
    """Answers Prometheus."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def endpoints(self) -> list[Endpoint]:
        return [Endpoint("GET", "/metrics", self.show, Role.READER, any_body=True)]

    async def show(self, asked: Asked) -> Response:
        return await to_thread.run_sync(answer_metrics, self._registry, asked.headers.get("accept"))
