"""One plugin: a class under the name that configurations and the REST API use for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

UNDEFINED_VERSION: Final = "undefined"
"""The version of a plugin that names none; the REST API leaves it out."""


class PluginKind(Enum):
    """The kinds of plugins in the order in which the REST API lists them; the value is Connect's name."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    CONFIG_PROVIDER = "configprovider"
    OVERRIDE_POLICY = "connector_client_config_override_policy"

    @property
    def interface(self) -> str:
        """The simple name of the interface in Java that plugins of this kind implement."""
        return INTERFACES[self].rpartition(".")[2]

    @property
    def interface_class(self) -> str:
        """The full name of that interface."""
        return INTERFACES[self]


CONNECT: Final = "org.apache.kafka.connect."
INTERFACES: Final = {
    PluginKind.SINK: CONNECT + "sink.SinkConnector",
    PluginKind.SOURCE: CONNECT + "source.SourceConnector",
    PluginKind.TRANSFORMATION: CONNECT + "transforms.Transformation",
    PluginKind.PREDICATE: CONNECT + "transforms.predicates.Predicate",
    PluginKind.CONVERTER: CONNECT + "storage.Converter",
    PluginKind.HEADER_CONVERTER: CONNECT + "storage.HeaderConverter",
    PluginKind.CONFIG_PROVIDER: "org.apache.kafka.common.config.provider.ConfigProvider",
    PluginKind.OVERRIDE_POLICY: CONNECT + "connector.policy.ConnectorClientConfigOverridePolicy",
}
CONNECTORS: Final = (PluginKind.SOURCE, PluginKind.SINK)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin. Equal plugins have the same name, kind and version."""

    name: str
    """The full name of the class: Java's for what Kafka has too, else that of the Python class."""
    kind: PluginKind
    version: str
    load: Callable[[], type[Any]] = field(repr=False, compare=False)
    """Import the class of the plugin and return it."""
    aliases: tuple[str, ...] = ()
    """More short names, besides those that follow from `name`."""

    def __str__(self) -> str:
        """Describe the plugin as Connect's messages do."""
        return (
            f"PluginDesc{{klass=class {self.name}, name='{self.name}', version='{self.version}', "
            f"encodedVersion={self.version}, type={self.kind.value}, typeName='{self.kind.value}', "
            f"location='classpath'}}"
        )

    def as_json(self) -> dict[str, str]:
        """Return what GET /connector-plugins shows."""
        shown = {"class": self.name, "type": self.kind.value}
        return shown if self.version == UNDEFINED_VERSION else {**shown, "version": self.version}
