"""The endpoints below /admin/loggers."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from starlette.responses import Response

from penstock.connect.herding.herder import Herder
from penstock.connect.rest.answers import RequestRefused, answer
from penstock.connect.rest.asked import Asked
from penstock.connect.rest.routing import Endpoint
from penstock.connect.rest.waiting import Waiting
from penstock.security.access.roles import Role

log = logging.getLogger(__name__)

_LEVELS: Final = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")


class Loggers:
    """Shows and sets the levels of loggers, on this worker or on all (KIP-495, KIP-976)."""

    def __init__(self, herder: Herder, waiting: Waiting) -> None:
        self._herder = herder
        self._waiting = waiting

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint("GET", "/admin/loggers", self.list_all, Role.ADMIN),
            Endpoint("GET", "/admin/loggers/{logger}", self.get, Role.ADMIN),
            Endpoint("PUT", "/admin/loggers/{logger}", self.set, Role.ADMIN),
        ]

    async def list_all(self, _asked: Asked) -> Response:
        found = await self._waiting.call(self._herder.logger_levels)
        return answer({name: found[name].as_json() for name in sorted(found)})

    async def get(self, asked: Asked) -> Response:
        name = asked.parameters["logger"]
        found = await self._waiting.call(lambda: self._herder.logger_level(name))
        if found is None:
            raise RequestRefused(404, f"Logger {name} not found.")
        return answer(found.as_json())

    async def set(self, asked: Asked) -> Response:
        name, level = asked.parameters["logger"], asked.properties().get("level")
        if level is None:
            raise RequestRefused(400, "Desired 'level' parameter was not specified in request.")
        if level.upper() not in _LEVELS:
            raise RequestRefused(404, f"invalid log level '{level}'.")
        scope = asked.word("scope", "worker")
        if scope.lower() == "cluster":
            await self._waiting.call(partial(self._herder.set_cluster_logger_level, name, level))
            return Response(status_code=204)
        if scope.lower() != "worker":
            log.warning("the scope of a logger is unknown, it is set on this worker scope=%s", scope)
        changed = await self._waiting.call(partial(self._herder.set_worker_logger_level, name, level))
        return answer(list(changed))
