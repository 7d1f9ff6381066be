"""The endpoints below /connectors, except the workers' own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from penstock.connect.herding.entities import Created
from penstock.connect.herding.errors import NotFound
from penstock.connect.herding.herder import Herder
from penstock.connect.rest.answers import RequestRefused, answer, no_content
from penstock.connect.rest.asked import Asked
from penstock.connect.rest.routing import Endpoint
from penstock.connect.rest.waiting import Waiting
from penstock.connect.stores.configs.model import RestartRequest
from penstock.security.access.roles import Role

log = logging.getLogger(__name__)


class Connectors:
    """Answers requests about connectors.

    ``tracks_topics`` is ``topic.tracking.enable``, and ``may_reset_topics`` ``topic.tracking.allow.reset``.
    """

    def __init__(
        self, herder: Herder, waiting: Waiting, *, tracks_topics: bool = True, may_reset_topics: bool = True
    ) -> None:
        self._herder = herder
        self._waiting = waiting
        self._tracks_topics = tracks_topics
        self._may_reset_topics = may_reset_topics

    def endpoints(self) -> list[Endpoint]:
        reader, writer = Role.READER, Role.WRITER
        one = "/connectors/{connector}"
        return [
            Endpoint("GET", "/connectors", self.list_all, reader),
            Endpoint("POST", "/connectors", self.create, writer),
            Endpoint("GET", one, self.get, reader),
            Endpoint("DELETE", one, self.delete, writer),
            Endpoint("GET", f"{one}/config", self.get_config, reader),
            Endpoint("PUT", f"{one}/config", self.put_config, writer),
            Endpoint("PATCH", f"{one}/config", self.patch_config, writer),
            Endpoint("GET", f"{one}/status", self.status, reader),
            Endpoint("GET", f"{one}/topics", self.topics, reader),
            Endpoint("PUT", f"{one}/topics/reset", self.reset_topics, writer),
            Endpoint("POST", f"{one}/restart", self.restart, writer),
            Endpoint("PUT", f"{one}/stop", self.stop, writer),
            Endpoint("PUT", f"{one}/pause", self.pause, writer),
            Endpoint("PUT", f"{one}/resume", self.resume, writer),
            Endpoint("GET", f"{one}/tasks", self.tasks, reader),
            Endpoint("GET", f"{one}/tasks/{{task}}/status", self.task_status, reader),
            Endpoint("POST", f"{one}/tasks/{{task}}/restart", self.restart_task, writer),
            Endpoint("GET", f"{one}/offsets", self.get_offsets, reader),
            Endpoint("PATCH", f"{one}/offsets", self.alter_offsets, writer),
            Endpoint("DELETE", f"{one}/offsets", self.reset_offsets, writer),
        ]

    # Connectors and their configurations

    async def list_all(self, asked: Asked) -> Response:
        wanted = [value for name, value in asked.query if name == "expand"]
        return answer(await self._waiting.call(lambda: self._expanded(wanted)))

    def _expanded(self, wanted: list[str]) -> Any:
        if not wanted:
            return list(self._herder.connectors())
        parts: dict[str, Callable[[str], Any]] = {
            "status": self._herder.connector_status,
            "info": self._herder.connector_info_now,
        }
        unknown = set(wanted) - parts.keys()
        if unknown:
            log.info("ignoring unknown expansions of connectors expand=%s", ",".join(sorted(unknown)))
        known = [name for name in parts if name in wanted]
        found: dict[str, Any] = {}
        for connector in self._herder.connectors():
            try:
                found[connector] = {name: parts[name](connector).as_json() for name in known}
            except NotFound:
                log.debug("a connector was removed or has no status yet connector=%s", connector)
        return found

    async def create(self, asked: Asked) -> Response:
        name, config, state = asked.new_connector()
        named = _named(name, config)
        operation = partial(self._herder.put_connector_config, name, named, state, may_replace=False)
        return await self._waiting.complete_or_forward(asked, operation, partial(_created, asked))

    async def get(self, asked: Asked) -> Response:
        found = await self._waiting.complete(lambda: self._herder.connector_info(asked.connector))
        return answer(found.as_json())

    async def delete(self, asked: Asked) -> Response:
        operation = partial(self._herder.delete_connector, asked.connector)
        return await self._waiting.complete_or_forward(asked, operation, no_content)

    async def get_config(self, asked: Asked) -> Response:
        found = await self._waiting.complete(lambda: self._herder.connector_config(asked.connector))
        return answer(dict(found))

    async def put_config(self, asked: Asked) -> Response:
        named = _named(asked.connector, asked.properties())
        operation = partial(self._herder.put_connector_config, asked.connector, named, may_replace=True)
        return await self._waiting.complete_or_forward(asked, operation, partial(_created, asked))

    async def patch_config(self, asked: Asked) -> Response:
        operation = partial(self._herder.patch_connector_config, asked.connector, asked.properties())
        return await self._waiting.complete_or_forward(
            asked, operation, lambda created: answer(created.connector.as_json())
        )

    # States

    async def status(self, asked: Asked) -> Response:
        found = await self._waiting.call(lambda: self._herder.connector_status(asked.connector))
        return answer(found.as_json())

    async def restart(self, asked: Asked) -> Response:
        only_failed, include_tasks = asked.is_set("onlyFailed"), asked.is_set("includeTasks")
        if not only_failed and not include_tasks:
            operation = partial(self._herder.restart_connector, asked.connector)
            return await self._waiting.complete_or_forward(asked, operation, no_content)
        request = RestartRequest(asked.connector, only_failed, include_tasks)
        return await self._waiting.complete_or_forward(
            asked,
            partial(self._herder.restart_connector_and_tasks, request),
            lambda states: answer(states.as_json(), 202),
        )

    async def stop(self, asked: Asked) -> Response:
        operation = partial(self._herder.stop_connector, asked.connector)
        return await self._waiting.complete_or_forward(asked, operation, no_content)

    async def pause(self, asked: Asked) -> Response:
        await self._waiting.call(lambda: self._herder.pause_connector(asked.connector))
        return Response(status_code=202)

    async def resume(self, asked: Asked) -> Response:
        await self._waiting.call(lambda: self._herder.resume_connector(asked.connector))
        return Response(status_code=202)

    # Tasks

    async def tasks(self, asked: Asked) -> Response:
        found = await self._waiting.complete(lambda: self._herder.task_configs(asked.connector))
        return answer([task.as_json() for task in found])

    async def task_status(self, asked: Asked) -> Response:
        task = asked.task
        found = await self._waiting.call(lambda: self._herder.task_status(task))
        return answer({"id": task.task, **found.as_json()})

    async def restart_task(self, asked: Asked) -> Response:
        operation = partial(self._herder.restart_task, asked.task)
        return await self._waiting.complete_or_forward(asked, operation, no_content)

    # Topics and offsets

    async def topics(self, asked: Asked) -> Response:
        self._check_topics()
        found = await self._waiting.call(lambda: self._herder.active_topics(asked.connector))
        return answer(found.as_json())

    async def reset_topics(self, asked: Asked) -> Response:
        self._check_topics()
        if not self._may_reset_topics:
            raise RequestRefused(403, "Topic tracking reset is disabled.")
        await self._waiting.call(lambda: self._herder.reset_active_topics(asked.connector))
        return Response(status_code=202)

    def _check_topics(self) -> None:
        if not self._tracks_topics:
            raise RequestRefused(403, "Topic tracking is disabled.")

    async def get_offsets(self, asked: Asked) -> Response:
        found = await self._waiting.complete(lambda: self._herder.connector_offsets(asked.connector))
        return answer({"offsets": [each._asdict() for each in found]})

    async def alter_offsets(self, asked: Asked) -> Response:
        operation = partial(self._herder.alter_connector_offsets, asked.connector, asked.offsets())
        return await self._waiting.complete_or_forward(asked, operation, _message)

    async def reset_offsets(self, asked: Asked) -> Response:
        operation = partial(self._herder.reset_connector_offsets, asked.connector)
        return await self._waiting.complete_or_forward(asked, operation, _message)


def _named(connector: str, config: dict[str, str | None]) -> dict[str, str | None]:
    """Add the connector's name to its configuration. Raises RequestRefused if that has another one."""
    included = config.get("name")
    if included is None:
        return {**config, "name": connector}
    if included != connector:
        told = f"Connector name configuration ({included}) doesn't match connector name in the URL"
        raise RequestRefused(400, f"{told} ({connector})")
    return config


def _created(asked: Asked, created: Created) -> Response:
    response = answer(created.connector.as_json(), 201 if created.is_new else 200)
    if created.is_new:
        response.headers["location"] = f"{asked.base_url}/connectors/{quote(created.connector.name, safe='')}"
    return response


def _message(text: str) -> Response:
    return answer({"message": text})
