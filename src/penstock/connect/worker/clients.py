"""The properties of the Kafka clients of connectors and tasks.

A worker's own properties with the prefixes ``producer.``, ``consumer.`` and ``admin.`` hold for all of its
connectors; admin clients also get its properties without a prefix. A connector overrides them with the
prefixes ``producer.override.`` and so on, as far as the worker's policy permits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.connect.errors import ConfigInvalid
from penstock.connect.tasks.parts import ClientProperties
from penstock.connect.validation.client_overrides import OverridePolicy

_CLIENTS: Final = ("producer", "consumer", "admin")


class Clients:
    """The clients of one worker's connectors.

    Args:
        worker: the worker's properties.
        policy: says which properties connectors may override.
    """

    def __init__(self, worker: Mapping[str, str], policy: OverridePolicy) -> None:
        self._worker = worker
        self._policy = policy
        self._own = {
            name: value
            for name, value in worker.items()
            if not name.startswith(tuple(f"{client}." for client in _CLIENTS))
        }

    def of(self, connector: Mapping[str, str]) -> ClientProperties:
        """Return the properties of the clients of a connector and its tasks.

        Raises ConfigInvalid for an override that the policy does not permit.
        """
        servers = {"bootstrap.servers": self._worker["bootstrap.servers"]}
        return ClientProperties(
            producer={**servers, **self._with(connector, "producer")},
            consumer={**servers, **self._with(connector, "consumer")},
            admin={**self._own, **self._with(connector, "admin")},
        )

    def _with(self, connector: Mapping[str, str], client: str) -> dict[str, str]:
        overrides = _without_prefix(connector, f"{client}.override.")
        errors = [error for name in overrides for error in self._policy.errors(name)]
        if errors:
            raise ConfigInvalid(f"Client Config Overrides not allowed: {' '.join(errors)}")
        return {**_without_prefix(self._worker, f"{client}."), **overrides}


def _without_prefix(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}
