"""The endpoints below /connector-plugins."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.responses import Response

from penstock.connect.errors import ConnectError
from penstock.connect.herding.herder import Herder
from penstock.connect.rest.answers import RequestRefused, answer
from penstock.connect.rest.asked import Asked
from penstock.connect.rest.routing import Endpoint
from penstock.connect.rest.waiting import Waiting
from penstock.security.access.roles import Role

_CLASS: Final = "connector.class"
_SUFFIX: Final = "Connector"


class Plugins:
    """Answers requests about plugins, and validates configurations."""

    def __init__(self, herder: Herder, waiting: Waiting) -> None:
        self._herder = herder
        self._waiting = waiting

    def endpoints(self) -> list[Endpoint]:
        """Return the endpoints.

        A validation resolves variables such as those of files and shows their values, and it makes plugins.
        """
        one = "/connector-plugins/{plugin}"
        return [
            Endpoint("GET", "/connector-plugins", self.list_all, Role.READER),
            Endpoint("GET", f"{one}/config", self.config, Role.READER),
            Endpoint("PUT", f"{one}/config/validate", self.validate, Role.WRITER),
        ]

    async def list_all(self, asked: Asked) -> Response:
        types = ("sink", "source") if asked.is_set("connectorsOnly", default=True) else None
        found = await self._waiting.call(self._herder.plugins)
        return answer([each.as_json() for each in found if types is None or each.type in types])

    async def config(self, asked: Asked) -> Response:
        version = asked.word("version", "latest")
        keys = await self._waiting.call(
            partial(self._herder.plugin_config, asked.parameters["plugin"], version)
        )
        return answer([key.as_json() for key in keys])

    async def validate(self, asked: Asked) -> Response:
        plugin, config = asked.parameters["plugin"], asked.properties()
        included = config.get(_CLASS)
        if included is not None and not _alias(included).endswith(_alias(plugin)):
            told = f"Included connector type {included} does not match request type {plugin}"
            raise RequestRefused(400, told)
        try:
            found = await self._waiting.complete(lambda: self._herder.validate(config))
        except RequestRefused:
            raise
        except ConnectError as error:
            # Kafka Connect answers so, whatever the herder's status is
            raise RequestRefused(500, str(error)) from error
        return answer(found.as_json())


def _alias(name: str) -> str:
    """The name of a class without the ending that aliases leave out."""
    return name.removesuffix(_SUFFIX) or name
