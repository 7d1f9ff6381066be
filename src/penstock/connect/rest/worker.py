"""The endpoints / and /health, about the worker itself."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from starlette.responses import Response

from penstock.connect.herding.herder import Herder
from penstock.connect.rest.answers import answer
from penstock.connect.rest.asked import Asked
from penstock.connect.rest.routing import Endpoint
from penstock.connect.rest.waiting import Waiting
from penstock.security.access.roles import Role

KAFKA_VERSION: Final = "4.3.1"
"""The release of Kafka Connect whose API this is. Clients decide by it which endpoints they use."""


class Worker:
    """Describes the worker and its health."""

    def __init__(self, herder: Herder, waiting: Waiting) -> None:
        self._herder = herder
        self._waiting = waiting

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint("GET", "/", self.describe, Role.READER, any_body=True),
            Endpoint("GET", "/health", self.health, Role.READER, any_body=True),
        ]

    async def describe(self, _asked: Asked) -> Response:
        cluster_id = await self._waiting.call(lambda: self._herder.kafka_cluster_id)
        commit = f"penstock-{version('penstock')}"
        return answer({"version": KAFKA_VERSION, "commit": commit, "kafka_cluster_id": cluster_id})

    async def health(self, _asked: Asked) -> Response:
        try:
            future = await self._waiting.call(self._herder.check_health)
            await self._waiting.result(future, self._waiting.health_timeout_s)
        except TimeoutError:
            return self._unhealthy()
        message = "Worker has completed startup and is ready to handle requests."
        return answer({"status": "healthy", "message": message})

    def _unhealthy(self) -> Response:
        stage = self._herder.stage
        details = "" if stage is None else f" {stage}"
        if not self._herder.is_ready:
            return answer({"status": "starting", "message": f"Worker is still starting up.{details}"}, 503)
        told = "Worker was unable to handle this request and may be unable to handle other requests."
        return answer({"status": "unhealthy", "message": f"{told}{details}"}, 500)
