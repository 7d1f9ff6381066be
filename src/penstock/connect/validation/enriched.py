"""The keys of a connector with the worker's defaults, and with those of its transforms and predicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.connect.configs.connector import (
    CONNECTOR_CLASS,
    CONNECTOR_VERSION,
    CONVERTERS,
    HEADER_CONVERTER,
    PREDICATES,
    TRANSFORMS,
    VERSION_SUFFIX,
    ConnectorDefaults,
    ConverterDefault,
)
from penstock.connect.configs.plugin_rules import PluginRecommender, VersionRecommender, check_concrete
from penstock.connect.definitions.config_def import REQUIRED, ConfigDef, ConfigType, Importance, Width
from penstock.connect.definitions.config_key import ConfigKey
from penstock.connect.definitions.config_types import invalid, parse_type
from penstock.connect.definitions.validators import DescribedValidator
from penstock.connect.errors import ConfigInvalid, PluginVersionInvalid
from penstock.connect.plugins.loading import plugin_definition
from penstock.connect.plugins.plugin import CONNECTORS, PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.versions import required_versions

Properties = Mapping[str, str | None]

SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
PREDICATE: Final = "predicate"
NEGATE: Final = "negate"


def worker_defaults(plugins: Plugins, properties: Properties, worker: Properties) -> ConnectorDefaults:
    """The defaults that a worker's configuration and its plugins give to a connector's keys."""
    return ConnectorDefaults(
        plugins=plugins,
        connector_version=plugins.latest_version(properties.get(CONNECTOR_CLASS), CONNECTORS),
        converters={name: converter_default(plugins, name, properties, worker) for name in CONVERTERS},
    )


def converter_default(
    plugins: Plugins, key: str, properties: Properties, worker: Properties
) -> ConverterDefault:
    kind = CONVERTERS[key]
    version_key = f"{key}.{VERSION_SUFFIX}"
    chosen = properties.get(key)
    default = worker.get(key, SIMPLE_HEADER_CONVERTER if key == HEADER_CONVERTER else None)
    if chosen is None and default is None:
        return ConverterDefault()
    if chosen is not None:
        version = plugins.latest_version(chosen, (kind,))
    else:
        version = worker.get(version_key) or plugins.latest_version(default, (kind,))
    return ConverterDefault(None if default is None else plugins.class_name(default) or default, version)


def enriched_definition(definition: ConfigDef, plugins: Plugins, properties: Properties) -> ConfigDef:
    """Add the keys of a connector's transforms and predicates to its definition."""
    enriched = ConfigDef(definition)
    for key, kind in ((TRANSFORMS, PluginKind.TRANSFORMATION), (PREDICATES, PluginKind.PREDICATE)):
        for alias in dict.fromkeys(parse_type(key, properties.get(key), ConfigType.LIST) or ()):
            ChainKeys(plugins, properties, key, kind, alias).add_to(enriched)
    return enriched


@dataclass(frozen=True)
class ChainKeys:
    """The keys of one transform or predicate of a connector."""

    plugins: Plugins
    properties: Properties
    list_key: str
    """``transforms`` or ``predicates``"""
    kind: PluginKind
    alias: str

    @property
    def prefix(self) -> str:
        return f"{self.list_key}.{self.alias}."

    @property
    def type_key(self) -> str:
        return f"{self.prefix}type"

    @property
    def version_key(self) -> str:
        return f"{self.prefix}{VERSION_SUFFIX}"

    def add_to(self, definition: ConfigDef) -> None:
        group = f"{self.list_key.capitalize()}: {self.alias}"
        described = self.kind.interface.lower()
        definition.define(
            self.type_key,
            ConfigType.CLASS,
            REQUIRED,
            DescribedValidator(self.check_type, f"valid configs for {self.alias} {described}"),
            Importance.HIGH,
            f"Class of the {described} '{self.alias}'.",
            group=group,
            order=0,
            width=Width.LONG,
            display_name=f"{self.kind.interface} type for {self.alias}",
            recommender=PluginRecommender(self.plugins, self.kind),
        )
        definition.define(
            self.version_key,
            ConfigType.STRING,
            self.default_version(),
            self.check_version,
            Importance.HIGH,
            f"Version of the {described} '{self.alias}', or a range of versions.",
            group=group,
            order=1,
            width=Width.LONG,
            display_name=f"{self.kind.interface} version for {self.alias}",
            recommender=VersionRecommender(self.plugins, (self.kind,), self.type_key, is_always_visible=True),
        )
        own = self.own_keys()
        if own is not None:
            definition.embed(self.prefix, group, 2, own)

    def default_version(self) -> str | None:
        return self.plugins.latest_version(self.properties.get(self.type_key), (self.kind,))

    def own_keys(self) -> ConfigDef | None:
        """The keys of the class, with those of all transforms; None if the class cannot be used."""
        if self.properties.get(self.type_key) is None:
            return None
        try:
            of_class = self.class_definition(
                self.properties[self.type_key], self.properties.get(self.version_key)
            )
        except ConfigInvalid:
            return None
        common = COMMON_KEYS if self.kind is PluginKind.TRANSFORMATION else ConfigDef()
        own = ConfigDef(common)
        for key in of_class.keys.values():
            if key.name not in common.keys:
                own.add(key)
        return own

    def class_definition(self, name: str | None, version: str | None) -> ConfigDef:
        """Return the definition that the class has, or an empty one if the connector is not known.

        Raises:
            ConfigInvalid: the class cannot be used.
            PluginVersionInvalid: it has another version.
        """
        if name is None or self.properties.get(CONNECTOR_CLASS) is None:
            return ConfigDef()
        try:
            required_versions(self.properties.get(CONNECTOR_VERSION))
        except PluginVersionInvalid:
            return ConfigDef()  # the key of that version shows the error
        required = required_versions(version)
        given = self.properties.get(self.type_key)
        full = parse_type(self.type_key, given, ConfigType.CLASS, self.plugins.class_name)
        check_concrete(self.plugins, self.kind, full)
        try:
            made = self.plugins.new(name, self.kind, required)
        except PluginVersionInvalid:
            raise
        except Exception as error:
            problem = f"Error getting config definition from {self.kind.interface}: {error}"
            raise invalid(self.type_key, name, problem) from error
        return plugin_definition(made)

    def check_type(self, _name: str, value: Any) -> None:
        negate, predicate = self.prefix + NEGATE, self.prefix + PREDICATE
        is_transform = self.kind is PluginKind.TRANSFORMATION
        if is_transform and negate in self.properties and predicate not in self.properties:
            raise ConfigInvalid(
                f"Config '{negate}' was provided but there is no config '{predicate}' defining a "
                "predicate to be negated."
            )
        if value is not None:
            self.class_definition(value, self.properties.get(self.version_key, self.default_version()))

    def check_version(self, _name: str, value: Any) -> None:
        if value is None:
            return
        try:
            self.class_definition(self.properties.get(self.type_key), value)
        except PluginVersionInvalid:
            raise
        except ConfigInvalid:
            pass  # the key of the class shows the error


COMMON_KEYS: Final = (
    ConfigDef()
    .define(
        PREDICATE,
        ConfigType.STRING,
        None,
        doc="Name of a predicate: only records for which it holds are changed.",
    )
    .define(
        NEGATE,
        ConfigType.BOOLEAN,
        False,
        doc="Whether the transform changes the records for which the predicate does not hold.",
    )
)
"""The keys of every transform."""


def merged_keys(*definitions: ConfigDef) -> dict[str, ConfigKey]:
    """The keys of several definitions. A later definition replaces a key, which keeps its place."""
    merged: dict[str, ConfigKey] = {}
    for definition in definitions:
        merged.update(definition.keys)
    return merged


def groups_of(definitions: Iterable[ConfigDef]) -> list[str]:
    """The distinct groups of several definitions in their order."""
    return list(dict.fromkeys(group for definition in definitions for group in definition.groups))
