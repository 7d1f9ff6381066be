"""Replace the variables ``${provider:[path:]key}`` of configurations (KIP-297)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.connect.definitions.config_types import COMMA, SPACE
from penstock.connect.plugins.plugin import PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.providers.provider import ConfigProvider

log = logging.getLogger(__name__)

PROVIDERS: Final = "config.providers"
RELOAD_ACTION: Final = "config.action.reload"
VARIABLE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

Values = dict[str, Mapping[str, str]]
"""The values that one provider has, by path."""


@dataclass(frozen=True, slots=True)
class Transformed:
    """A configuration without variables, and the paths whose values expire, with their times to live."""

    properties: dict[str, str]
    ttls_ms: dict[str, int]

    @property
    def restart_after_ms(self) -> int | None:
        """When the connector should be restarted to get new values; None if no value expires."""
        restarts = self.properties.get(RELOAD_ACTION, "restart").strip(SPACE).lower() == "restart"
        return min(self.ttls_ms.values(), default=None) if restarts else None


class Variable(NamedTuple):
    """A variable in a value."""

    provider: str
    path: str
    key: str


def variables(text: str) -> list[Variable]:
    return [Variable(provider, path, key) for provider, path, key in VARIABLE.findall(text)]


class ConfigTransformer:
    """Replaces the variables of some providers."""

    def __init__(self, providers: Mapping[str, ConfigProvider]) -> None:
        self._providers = dict(providers)

    def transform(self, properties: Mapping[str, str]) -> Transformed:
        """Replace all variables that have a value. Values are not searched for variables again.

        Raises:
            ConfigInvalid: a provider cannot read a path.
        """
        wanted: dict[str, dict[str, dict[str, None]]] = {}
        for text in properties.values():
            for variable in variables(text or ""):
                paths = wanted.setdefault(variable.provider, {})
                paths.setdefault(variable.path, {})[variable.key] = None
        ttls_ms: dict[str, int] = {}
        found: dict[str, Values] = {}
        for name, paths in wanted.items():
            if (provider := self._providers.get(name)) is None:
                continue
            for path, keys in paths.items():
                data = provider.get(path, keys)
                found.setdefault(name, {})[path] = data.values
                if data.ttl_ms is not None and data.ttl_ms >= 0:
                    ttls_ms[path] = data.ttl_ms
        # a configuration of the REST API may have nulls, which are refused only later
        replaced = {name: text and replace(text, found) for name, text in properties.items()}
        return Transformed(replaced, ttls_ms)

    def close(self) -> None:
        """Close all providers."""
        for name, provider in self._providers.items():
            try:
                provider.close()
            except Exception:
                log.exception("A config provider could not be closed provider=%s", name)


def replace(text: str, found: Mapping[str, Values]) -> str:
    def value(match: re.Match[str]) -> str:
        provider, path, key = match[1], match[2] or "", match[3]
        known = found.get(provider, {}).get(path, {}).get(key)
        return match[0] if known is None else known

    return VARIABLE.sub(value, text)


def with_variables(raw: Mapping[str, str], transformed: Mapping[str, str]) -> dict[str, str]:
    """Put the variables of a connector back into the configuration of a task, so that no secret is stored."""
    return {
        name: raw[name] if name in raw and variables(raw[name] or "") else value
        for name, value in transformed.items()
    }


def worker_transformer(plugins: Plugins, worker: Mapping[str, str]) -> ConfigTransformer:
    """Make the providers that a worker's configuration names.

    Raises:
        PluginNotFound: a provider's class is not known.
        ConfigInvalid: a provider refuses its properties.
    """
    providers = {}
    for name in COMMA.split(worker.get(PROVIDERS, "").strip(SPACE)):
        prefix = f"{PROVIDERS}.{name}."
        if (class_name := worker.get(f"{prefix}class")) is None:
            continue
        provider: ConfigProvider = plugins.new(class_name.strip(SPACE), PluginKind.CONFIG_PROVIDER)
        begin = f"{prefix}param."
        provider.configure(
            {key.removeprefix(begin): value for key, value in worker.items() if key.startswith(begin)}
        )
        providers[name] = provider
    return ConfigTransformer(providers)


def resolved_worker(plugins: Plugins, worker: Mapping[str, str]) -> dict[str, str]:
    """Replace the variables of a worker's own configuration.

    Raises:
        ConfigInvalid: a provider is not known, or cannot read a path.
    """
    transformer = worker_transformer(plugins, worker)
    try:
        return transformer.transform(worker).properties
    finally:
        transformer.close()
