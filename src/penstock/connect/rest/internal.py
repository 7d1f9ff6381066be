"""The endpoints for other workers, whose requests are signed (KIP-507)."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response

from penstock.connect.herding.entities import SignedRequest
from penstock.connect.herding.herder import Herder
from penstock.connect.rest.answers import no_content
from penstock.connect.rest.asked import Asked
from penstock.connect.rest.routing import Endpoint
from penstock.connect.rest.waiting import Waiting


class Internal:
    """Answers the workers that start tasks of a connector. The herder checks the signatures."""

    def __init__(self, herder: Herder, waiting: Waiting) -> None:
        self._herder = herder
        self._waiting = waiting

    def endpoints(self) -> list[Endpoint]:
        one = "/connectors/{connector}"
        return [
            Endpoint("POST", f"{one}/tasks", self.put_tasks, needs=None, any_body=True),
            Endpoint("PUT", f"{one}/fence", self.fence, needs=None, any_body=True),
        ]

    async def put_tasks(self, asked: Asked) -> Response:
        request = SignedRequest(asked.headers, asked.body)
        configs = asked.list_of_properties()
        operation = partial(self._herder.put_task_configs, asked.connector, configs, request)
        return await self._waiting.complete_or_forward(asked, operation, no_content)

    async def fence(self, asked: Asked) -> Response:
        request = SignedRequest(asked.headers, asked.body)
        operation = partial(self._herder.fence_zombies, asked.connector, request)
        return await self._waiting.complete_or_forward(asked, operation, no_content)
