"""A config provider that reads the environment: ``${env:PASSWORD}``."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Final

from penstock.connect.definitions.config_types import invalid
from penstock.connect.errors import ConfigInvalid
from penstock.connect.providers.provider import ConfigData
from penstock.java.patterns import PatternError, compile_pattern

ALLOWLIST: Final = "allowlist.pattern"


class EnvironmentProvider:
    """Reads variables whose names match `allowlist.pattern` (Kafka's EnvVarConfigProvider)."""

    def __init__(self) -> None:
        self._allowed = ".*"

    def configure(self, properties: Mapping[str, str]) -> None:
        self._allowed = properties.get(ALLOWLIST, self._allowed)
        try:
            compile_pattern(self._allowed)
        except PatternError as error:
            raise invalid(ALLOWLIST, self._allowed, str(error)) from None

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        """Return the variables that exist.

        Raises:
            ConfigInvalid: there is a path, which variables of the environment do not have.
        """
        if path:
            raise ConfigInvalid(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        pattern = compile_pattern(self._allowed)
        found = {key: os.environ[key] for key in keys if key in os.environ}
        return ConfigData({key: value for key, value in found.items() if pattern.fullmatch(key) is not None})

    def close(self) -> None:
        """Nothing is held between calls."""
