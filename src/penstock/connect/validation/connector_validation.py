"""Validate the whole configuration of a connector, as PUT /connector-plugins/{name}/config/validate does."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, cast

from penstock.connect.configs.connector import (
    CONNECTOR_CLASS,
    CONNECTOR_VERSION,
    CONVERTERS,
    HEADER_CONVERTER,
    KEY_CONVERTER,
    VALUE_CONVERTER,
    VERSION_SUFFIX,
    ConnectorDefaults,
    connector_definition,
)
from penstock.connect.configs.sink import sink_definition, topic_errors
from penstock.connect.configs.source import source_definition
from penstock.connect.connector.connector import Connector
from penstock.connect.connector.source import SourceConnector
from penstock.connect.definitions.config_def import ConfigDef, ConfigKey, ConfigValue
from penstock.connect.definitions.config_types import java_text
from penstock.connect.definitions.validation import validate_all
from penstock.connect.errors import ConfigInvalid, PluginNotFound, PluginVersionInvalid
from penstock.connect.plugins.loading import close_plugin, plugin_definition
from penstock.connect.plugins.plugin import CONNECTORS, PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.versions import required_versions
from penstock.connect.validation.client_overrides import (
    OverridePolicy,
    clients_of,
    override_infos,
    without_prefix,
    worker_policy,
)
from penstock.connect.validation.config_infos import (
    ConfigInfos,
    ConfigKeyInfo,
    connector_infos,
    key_info,
    prefixed_infos,
)
from penstock.connect.validation.distributed_checks import GROUP_ID, check_distributed
from penstock.connect.validation.enriched import (
    Properties,
    enriched_definition,
    groups_of,
    merged_keys,
    worker_defaults,
)
from penstock.java.hash_order import grown
from penstock.java.strings import hash_code

log = logging.getLogger(__name__)

NULL_VALUE: Final = "Null value can not be supplied as the configuration value."
CONVERTER_TYPES: Final = {HEADER_CONVERTER: "header", KEY_CONVERTER: "key", VALUE_CONVERTER: "value"}
"""The converters in the order in which their keys are shown, with what each is told by `converter.type`."""


class ConnectorValidator:
    """Validates configurations of connectors with the plugins and the configuration of one worker."""

    def __init__(
        self, plugins: Plugins, worker: Mapping[str, str], policy: OverridePolicy | None = None
    ) -> None:
        """`worker` is the worker's configuration as text: its converters are the defaults of connectors'.

        The worker is a distributed one if it has a `group.id`. Its policy is made unless it is given.
        """
        self.plugins = plugins
        self.worker = worker
        self.policy = worker_policy(plugins, worker) if policy is None else policy

    def validate(self, properties: Properties) -> ConfigInfos:
        """Validate every key of a connector, its transforms, predicates, converters and client overrides.

        Variables of config providers must be resolved already.

        Raises:
            ConfigInvalid: there is no `connector.class`, or no such connector, or the required version is not
                one (400 in the REST API).
        """
        name = properties.get(CONNECTOR_CLASS)
        if name is None:
            raise ConfigInvalid(f"Connector config {shown(properties)} contains no connector type")
        required = required_versions(properties.get(CONNECTOR_VERSION))
        try:
            connector = self.plugins.connector(name, required)
        except PluginVersionInvalid as error:
            return self._wrong_version(name, properties, error)
        defaults = worker_defaults(self.plugins, properties, self.worker)
        is_source = isinstance(connector, SourceConnector)
        definition = source_definition(defaults) if is_source else sink_definition(defaults)
        definition = enriched_definition(definition, self.plugins, properties)
        values = self._values(definition, properties)
        if not is_source:
            for key, problem in topic_errors(properties):
                values.setdefault(key, ConfigValue(key, properties.get(key))).errors.append(problem)
        if GROUP_ID in self.worker:
            check_distributed(connector, properties, values, self.worker)
        add_null_errors(properties, values)
        converters = [self._converter(key, properties, values) for key in CONVERTER_TYPES]
        kind = PluginKind.SOURCE if is_source else PluginKind.SINK
        clients = clients_of(kind, properties, self.worker)
        parts = [
            self._connector(name, connector, definition, properties, values),
            override_infos(self.policy, properties, clients),
            *(infos for infos in converters if infos is not None),
        ]
        return ConfigInfos.merged(name, parts)

    def definition_of(self, plugin: str, version: str | None = None) -> list[ConfigKeyInfo]:
        """Return the keys of any plugin, as GET /connector-plugins/{name}/config does.

        Raises:
            PluginNotFound: no plugin has the name (404 in the REST API).
            ConfigInvalid: the name is that of another class, or the version is not there (400).
        """
        required = required_versions(version)
        found = self.plugins.find(plugin, (*CONNECTORS, *CONFIGURED))
        if found is None:
            if self.plugins.class_name(plugin) is None:
                raise PluginNotFound(f"Unknown plugin {plugin}.")
            kinds = ", ".join(kind.value for kind in (PluginKind.SINK, PluginKind.SOURCE, *CONFIGURED))
            raise ConfigInvalid(f"Invalid plugin class {plugin}. Valid types are {kinds}.")
        if found.kind not in CONNECTORS:
            made = self.plugins.new(plugin, found.kind, required)
            return [key_info(key) for key in plugin_definition(made).keys.values()]
        own = self.plugins.connector(plugin, required).definition
        defaults = ConnectorDefaults(
            plugins=self.plugins,
            connector_version=self.plugins.latest_version(plugin, CONNECTORS),
            recommends=False,
        )
        base = source_definition if found.kind is PluginKind.SOURCE else sink_definition
        return [key_info(key) for key in merged_keys(own, base(defaults), own).values()]

    def _values(self, definition: ConfigDef, properties: Properties) -> dict[str, ConfigValue]:
        return validate_all(definition.keys, cast(Mapping[str, str], properties), self.plugins.class_name)

    def _connector(
        self,
        name: str,
        connector: Connector,
        definition: ConfigDef,
        properties: Properties,
        values: Mapping[str, ConfigValue],
    ) -> ConfigInfos:
        """Add the keys that the connector itself has, and what it says about their values."""
        own = connector.definition
        found = connector.validate(cast(Mapping[str, str], properties))
        groups = groups_of((definition, own))
        return connector_infos(
            name, merged_keys(definition, own), [*in_order(values, definition.keys), *found], groups
        )

    def _converter(
        self, key: str, properties: Properties, values: Mapping[str, ConfigValue]
    ) -> ConfigInfos | None:
        """Validate the keys of a converter, if the connector has its own and it can be used."""
        name = properties.get(key)
        value, version = values[key], values[f"{key}.{VERSION_SUFFIX}"]
        if name is None or value.errors or version.errors:
            return None
        try:
            required = required_versions(properties.get(version.name))
            converter = self.plugins.new(name, CONVERTERS[key], required)
        except PluginVersionInvalid as error:
            value.errors.append(str(error))
            version.errors.append(str(error))
            return None
        prefix = f"{key}."
        own = plugin_definition(converter)
        config = {"converter.type": CONVERTER_TYPES[key], **without_prefix(properties, prefix)}
        try:
            return prefixed_infos(own.keys, in_order(validate_all(own.keys, config), own.keys), prefix)
        finally:
            close_plugin(converter)

    def _wrong_version(self, name: str, properties: Properties, error: PluginVersionInvalid) -> ConfigInfos:
        """Validate only the keys of every connector, since those of this version are not known."""
        version = self.plugins.latest_version(name, CONNECTORS)
        defaults = ConnectorDefaults(plugins=self.plugins, connector_version=version, recommends=False)
        definition = connector_definition(defaults)
        values = self._values(definition, properties)
        values[CONNECTOR_CLASS].errors.append(str(error))
        values[CONNECTOR_VERSION].errors.append(str(error))
        values[CONNECTOR_VERSION].recommended_values = list(error.available)
        add_null_errors(properties, values)
        return connector_infos(name, definition.keys, in_order(values, definition.keys), definition.groups)


CONFIGURED: Final = (
    *(PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER),
    *(PluginKind.TRANSFORMATION, PluginKind.PREDICATE),
)
"""The kinds of plugins that have definitions, besides connectors."""


def in_order(values: Mapping[str, ConfigValue], defined: Mapping[str, ConfigKey]) -> list[ConfigValue]:
    """Sort values as a HashMap does: Connect shows keys that are not defined in this order.

    Those are added by `computeIfAbsent`, which puts a key before all others of its bucket.
    """
    added = [name for name in values if name not in defined]
    return [values[name] for name in grown([*reversed(added), *defined], hash_code)]


def add_null_errors(properties: Properties, values: dict[str, ConfigValue]) -> None:
    for name, value in properties.items():
        if value is None:
            values.setdefault(name, ConfigValue(name)).errors.append(NULL_VALUE)


def shown(properties: Mapping[str, Any]) -> str:
    """Show a configuration as Java shows a map."""
    return f"{{{', '.join(f'{name}={java_text(value)}' for name, value in properties.items())}}}"
