"""The keys of every connector."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from penstock.connect.configs.key_table import define_table
from penstock.connect.configs.plugin_rules import (
    PluginRecommender,
    PluginVersionValidator,
    VersionRecommender,
    plugin_validator,
)
from penstock.connect.configs.tables import connectors
from penstock.connect.definitions.config_def import ConfigDef
from penstock.connect.definitions.config_key import Recommender, Validator
from penstock.connect.definitions.config_types import invalid
from penstock.connect.definitions.validators import (
    CompositeValidator,
    DescribedValidator,
    NonEmptyStringWithoutControlChars,
    NonNullValidator,
    Range,
    ValidString,
)
from penstock.connect.plugins.plugin import CONNECTORS, PluginKind
from penstock.connect.plugins.registry import Plugins

NAME: Final = "name"
CONNECTOR_CLASS: Final = "connector.class"
VERSION_SUFFIX: Final = "plugin.version"
CONNECTOR_VERSION: Final = f"connector.{VERSION_SUFFIX}"
KEY_CONVERTER: Final = "key.converter"
VALUE_CONVERTER: Final = "value.converter"
HEADER_CONVERTER: Final = "header.converter"
CONVERTERS: Final = {
    KEY_CONVERTER: PluginKind.CONVERTER,
    VALUE_CONVERTER: PluginKind.CONVERTER,
    HEADER_CONVERTER: PluginKind.HEADER_CONVERTER,
}
"""The keys that name converters, with the kind of plugin that each takes."""
TRANSFORMS: Final = "transforms"
PREDICATES: Final = "predicates"


class ConverterDefault(NamedTuple):
    """The converter that a connector gets from its worker, and the converter's version."""

    name: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorDefaults:
    """The defaults that a worker and its plugins give to the keys of a connector."""

    plugins: Plugins | None = None
    """Without them, any name of a plugin is accepted."""
    recommends: bool = True
    """Whether plugins and versions are recommended, if the plugins are known."""
    connector_version: str | None = None
    converters: dict[str, ConverterDefault] = field(default_factory=dict)
    """The worker's converters, by the keys that name converters."""


def unique_aliases(described: str) -> Validator:
    """Accept lists whose entries differ; `described` shows what they are."""

    def check(name: str, value: Any) -> None:
        if len(set(value)) < len(value):
            raise invalid(name, value, "Duplicate alias provided.")

    return CompositeValidator(NonNullValidator(), DescribedValidator(check, f"unique {described}"))


def connector_definition(defaults: ConnectorDefaults | None = None) -> ConfigDef:
    """The keys of every connector, with the defaults of a worker if they are given."""
    defaults = ConnectorDefaults() if defaults is None else defaults
    plugins = defaults.plugins
    recommended = plugins if defaults.recommends else None
    validators: dict[str, Validator] = {
        NAME: NonEmptyStringWithoutControlChars(),
        CONNECTOR_VERSION: PluginVersionValidator(),
        "tasks.max": Range(1),
        TRANSFORMS: unique_aliases("transformation aliases"),
        PREDICATES: unique_aliases("predicate aliases"),
        "config.action.reload": ValidString("none", "restart"),
        "errors.tolerance": ValidString("none", "all"),
    }
    recommenders: dict[str, Recommender] = {
        CONNECTOR_VERSION: VersionRecommender(recommended, CONNECTORS, CONNECTOR_CLASS)
    }
    values: dict[str, Any] = {CONNECTOR_VERSION: defaults.connector_version}
    for name, kind in CONVERTERS.items():
        version_name = f"{name}.{VERSION_SUFFIX}"
        validators |= {name: plugin_validator(plugins, kind), version_name: PluginVersionValidator()}
        recommenders[name] = PluginRecommender(recommended, kind)
        recommenders[version_name] = VersionRecommender(recommended, (kind,), name)
        converter = defaults.converters.get(name, ConverterDefault())
        values |= {name: converter.name, version_name: converter.version}
    return define_table(ConfigDef(), connectors.CONNECTOR, validators, recommenders, values)
