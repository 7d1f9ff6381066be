"""The commands' client of a schema registry, with its error reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote, urlencode

import javaproperties

from penstock.cli.connection import EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_USAGE, fail
from penstock.cli.wrong_server import serves_kafka
from penstock.client.settings import ConfigError
from penstock.registry.client.config import URL, RegistryConfig
from penstock.registry.client.errors import RegistryRefused, RegistryUnreachable
from penstock.registry.client.http import Transport

# No retries: a user waits for the answer and can repeat the command.
_ONCE: Final = {"max.retries": "0"}


class Registry:
    """The registry of one command. A refused request ends the command with the registry's message."""

    def __init__(self, at: str) -> None:
        self._at = at
        self._transport = Transport(registry_config(at, _ONCE))

    def get(self, *segments: str, **query: object) -> Any:
        return self._ask("GET", segments, query)

    def post(self, *segments: str, body: object, **query: object) -> Any:
        return self._ask("POST", segments, query, body)

    def delete(self, *segments: str, **query: object) -> Any:
        return self._ask("DELETE", segments, query)

    def _ask(
        self, method: str, segments: tuple[str, ...], query: dict[str, object], body: object = None
    ) -> Any:
        path = f"/{'/'.join(quote(segment, safe='') for segment in segments)}"
        asked = {key: str(value).lower() for key, value in query.items() if value not in (None, False)}
        target = f"{path}?{urlencode(asked)}" if asked else path
        try:
            match method:
                case "GET":
                    return self._transport.get(target)
                case "POST":
                    return self._transport.post(target, body)
            return self._transport.delete(target)
        except ConfigError as error:
            fail(f"--registry: {error}", EXIT_USAGE)
        except RegistryRefused as error:
            fail(f"{error.message} ({error.code})", EXIT_REFUSED)
        except RegistryUnreachable as error:
            registry_unreachable(error, self._at)


def registry_config(at: str, defaults: Mapping[str, str]) -> RegistryConfig:
    """Read the option --registry, a URL or a file with properties; an invalid one ends the command."""
    properties = {URL: at}
    try:
        if Path(at).is_file():
            with open(at, encoding="utf-8") as file:
                properties = dict(javaproperties.load(file))
        return RegistryConfig.from_properties({**defaults, **properties})
    except (ConfigError, OSError, ValueError) as error:
        fail(f"--registry {at}: {error}", EXIT_USAGE)


def registry_unreachable(error: RegistryUnreachable, at: str) -> NoReturn:
    """End the command because no registry answers at *at*, the value of the option --registry."""
    urls = registry_config(at, {}).urls
    kafka = [str(url) for url in urls if serves_kafka(url.host, url.port)]
    reason = f"{kafka[0]} is a Kafka listener, not a schema registry" if kafka else str(error)
    fail(
        f"{reason}. `penstock registry start` starts one; --registry or PENSTOCK_REGISTRY names another.",
        EXIT_UNREACHABLE,
    )
