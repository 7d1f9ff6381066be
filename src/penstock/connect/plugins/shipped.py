"""The plugins that Penstock has itself, under the names of Java's classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

from penstock.connect.plugins.loading import version_of
from penstock.connect.plugins.plugin import UNDEFINED_VERSION, Plugin, PluginKind
from penstock.connect.plugins.shipped_connectors import ALIASES, SINKS, SOURCES
from penstock.protocol.api_keys import TARGET_RELEASE
from penstock.protocol.software import VERSION

APACHE: Final = "org.apache.kafka."
POLICY: Final = f"{APACHE}connect.connector.policy.{{}}ConnectorClientConfigOverridePolicy"
POLICIES: Final = "penstock.connect.validation.client_overrides"
PROVIDER: Final = f"{APACHE}common.config.provider.{{}}ConfigProvider"
CLASSES: Final = {
    PluginKind.SOURCE: SOURCES,
    PluginKind.SINK: SINKS,
    PluginKind.OVERRIDE_POLICY: {
        POLICY.format("All"): f"{POLICIES}:AllPolicy",
        POLICY.format("Allowlist"): f"{POLICIES}:AllowlistPolicy",
        POLICY.format("None"): f"{POLICIES}:NonePolicy",
        POLICY.format("Principal"): f"{POLICIES}:PrincipalPolicy",
    },
    PluginKind.CONFIG_PROVIDER: {
        PROVIDER.format("Directory"): "penstock.connect.providers.files:DirectoryProvider",
        PROVIDER.format("EnvVar"): "penstock.connect.providers.environment:EnvironmentProvider",
        PROVIDER.format("File"): "penstock.connect.providers.files:FileProvider",
    },
}
"""Classes by their names in Java. Their modules lie above this room, so they are named only."""
CONVERTERS: Final = "penstock.connect.converters.names"
TABLES: Final = (
    (PluginKind.CONVERTER, CONVERTERS, "CONVERTERS"),
    (PluginKind.HEADER_CONVERTER, CONVERTERS, "HEADER_CONVERTERS"),
    (PluginKind.TRANSFORMATION, "penstock.connect.transforms.names", "TRANSFORMS"),
    (PluginKind.PREDICATE, "penstock.connect.transforms.names", "PREDICATES"),
)
"""The tables of the rooms that have plugins: classes by their names in Java."""


def shipped_plugins() -> Iterator[Plugin]:
    """The plugins of this package. The classes of `CLASSES` are imported when they are first used.

    A plugin with the name of one of Apache Kafka's classes has the version of that release, and those with
    names of others that of Penstock.
    """
    for kind, classes in CLASSES.items():
        for name, target in classes.items():
            version = TARGET_RELEASE if name.startswith(APACHE) else VERSION
            yield Plugin(name, kind, version, partial(imported, *target.split(":")), ALIASES.get(name, ()))
    targets: Mapping[str, str] = imported(CONVERTERS, "REGISTRY_CONVERTERS")
    for name, target in targets.items():
        yield Plugin(name, PluginKind.CONVERTER, VERSION, partial(imported, *target.split(":")))
    for kind, module, table in TABLES:
        shipped: Mapping[str, type[Any]] = imported(module, table)
        for name, found in shipped.items():
            own_version = version_of(found) or UNDEFINED_VERSION
            version = TARGET_RELEASE if name.startswith(APACHE) else own_version
            yield Plugin(name, kind, version, partial(itself, found))


def imported(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def itself(found: type[Any]) -> type[Any]:
    return found
