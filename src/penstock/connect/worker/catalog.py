"""The plugins of a worker as its herder shows them, and validations with them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.connect.configs.connector import CONNECTOR_CLASS
from penstock.connect.errors import ConfigInvalid, PluginNotFound
from penstock.connect.herding.entities import PluginInfo, Properties
from penstock.connect.herding.errors import BadRequest, NotFound
from penstock.connect.plugins.plugin import UNDEFINED_VERSION
from penstock.connect.providers.transformer import ConfigTransformer
from penstock.connect.validation.config_infos import ConfigInfos, ConfigKeyInfo
from penstock.connect.validation.connector_validation import ConnectorValidator
from penstock.java.hash_order import copied_map
from penstock.java.strings import hash_code


class WorkerCatalog:
    """The `Catalog` of one worker.

    Args:
        transformer: puts values in place of variables such as ``${file:/secrets:password}``.
    """

    def __init__(self, validator: ConnectorValidator, transformer: ConfigTransformer) -> None:
        self._validator = validator
        self._transformer = transformer

    def plugins(self) -> Sequence[PluginInfo]:
        return [
            PluginInfo(
                plugin.name,
                plugin.kind.value,
                None if plugin.version == UNDEFINED_VERSION else plugin.version,
            )
            for plugin in self._validator.plugins.installed()
        ]

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[ConfigKeyInfo]:
        try:
            return self._validator.definition_of(plugin, version)
        except PluginNotFound as error:
            raise NotFound(str(error)) from error
        except ConfigInvalid as error:
            raise BadRequest(str(error)) from error

    def validate(self, config: Properties) -> ConfigInfos:
        texts = {name: value for name, value in config.items() if value is not None}
        try:
            resolved: Properties = {**config, **self._transformer.transform(texts).properties}
            if config.get(CONNECTOR_CLASS) is None:
                resolved = config  # the message shows the whole configuration, which may have secrets
            # Messages show the configuration in the order of the map in which Java replaces variables
            ordered = {name: resolved[name] for name in copied_map(resolved, hash_code)}
            return self._validator.validate(ordered)
        except ConfigInvalid as error:
            raise BadRequest(str(error)) from error
