"""The interface of config providers, which read values from outside a configuration (KIP-297)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class ConfigData(NamedTuple):
    """Values that a provider found. After `ttl_ms` they may have changed; None if they are not known to."""

    values: Mapping[str, str]
    ttl_ms: int | None = None


class ConfigProvider(Protocol):
    """Reads values for the variables ``${provider:[path:]key}``."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Take the properties ``config.providers.<name>.param.*`` without that prefix."""
        ...

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        """Return those values of a path that exist; a variable without a value stays as it is.

        Raises:
            ConfigInvalid: the path cannot be read.
        """
        ...

    def close(self) -> None:
        """Release what the provider holds."""
        ...
