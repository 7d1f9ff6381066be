"""Make what connectors and tasks consist of: plugins, configured as the worker and the connector say."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from penstock.connect.connector.connector import Connector
from penstock.connect.converters import Converter, HeaderConverter
from penstock.connect.errors import ConfigInvalid, ConnectError
from penstock.connect.herding.entities import ConnectorType, Properties
from penstock.connect.plugins.plugin import CONNECTORS, UNDEFINED_VERSION, PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.versions import VersionRange, required_versions
from penstock.connect.providers.transformer import ConfigTransformer, Transformed
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.tasks.parts import AnyTask, TaskParts, python_name
from penstock.connect.transforms.chain import build_chain

log = logging.getLogger(__name__)

_CLASS: Final = "connector.class"
_VERSION: Final = "plugin.version"
_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_TYPES: Final = {PluginKind.SOURCE: ConnectorType.SOURCE, PluginKind.SINK: ConnectorType.SINK}


class Parts:
    """The plugins of one worker, as the configurations of connectors use them.

    Args:
        worker: the worker's properties, whose converters are the defaults.
        transformer: puts values in place of variables such as ``${file:/secrets:password}``.
    """

    def __init__(self, plugins: Plugins, worker: Mapping[str, str], transformer: ConfigTransformer) -> None:
        self._plugins = plugins
        self._worker = worker
        self._transformer = transformer

    def close(self) -> None:
        """Close the config providers."""
        self._transformer.close()

    def transformed(self, properties: Properties) -> Transformed:
        """Return a configuration with values in place of variables, without keys whose value is null."""
        texts = {name: value for name, value in properties.items() if value is not None}
        return self._transformer.transform(texts)

    def resolved(self, properties: Properties) -> Mapping[str, str]:
        """Return the configuration of `transformed`. Raises ConfigInvalid."""
        return self.transformed(properties).properties

    def kind(self, properties: Properties) -> ConnectorType:
        """Return whether a connector is a source or a sink; UNKNOWN if its class cannot be found."""
        name = properties.get(_CLASS)
        try:
            return ConnectorType.UNKNOWN if name is None else _TYPES[self._plugins.connector_kind(name)]
        except ConnectError:
            return ConnectorType.UNKNOWN
        except Exception:
            log.exception("the kind of a connector is unknown, as its class failed class=%s", name)
            return ConnectorType.UNKNOWN

    def connector(self, properties: Mapping[str, str]) -> Connector:
        """Return a new connector. Raises ConnectError."""
        if _CLASS not in properties:
            raise ConfigInvalid(f"the configuration of a connector lacks '{_CLASS}'")
        return self._plugins.connector(properties[_CLASS], _version(properties, f"connector.{_VERSION}"))

    def version(self, properties: Mapping[str, str], connector: Connector) -> str:
        """Return the version of a connector for its status."""
        name = properties[_CLASS]
        installed = self._plugins.latest_version(self._plugins.class_name(name) or name, CONNECTORS)
        return installed or connector.version or UNDEFINED_VERSION

    def task_class(self, properties: Mapping[str, str], connector: Connector) -> str:
        """Return the name of the class of a connector's tasks, for their configurations.

        A connector with the name of one of Java's has tasks with such a name, so that Apache's workers in the
        same group can run them.
        """
        found = type(connector).task_class
        plugin = self._plugins.find(properties[_CLASS])
        if plugin is None or plugin.name == python_name(plugin.load()):
            return python_name(found)
        return f"{plugin.name.removesuffix('Connector')}Task"

    def task_parts(
        self,
        task_id: ConnectorTaskId,
        task: AnyTask,
        properties: Mapping[str, str],
        current_properties: Callable[[], Mapping[str, str]],
        topic_used: Callable[[str], None],
    ) -> TaskParts[AnyTask]:
        """Return the parts of a task, configured. Raises ConnectError."""
        names: dict[type, str] = {}
        chain = build_chain(
            properties,
            partial(self._class_of, PluginKind.TRANSFORMATION, names),
            partial(self._class_of, PluginKind.PREDICATE, names),
        )
        key_converter: Converter = self._new(properties, "key.converter", PluginKind.CONVERTER, names)
        key_converter.configure(self._of_plugin(properties, "key.converter"), is_key=True)
        value_converter: Converter = self._new(properties, "value.converter", PluginKind.CONVERTER, names)
        value_converter.configure(self._of_plugin(properties, "value.converter"), is_key=False)
        header_converter: HeaderConverter = self._new(
            properties, "header.converter", PluginKind.HEADER_CONVERTER, names
        )
        header_converter.configure(self._of_plugin(properties, "header.converter"))
        return TaskParts(
            task_id=task_id,
            task=task,
            properties=properties,
            key_converter=key_converter,
            value_converter=value_converter,
            header_converter=header_converter,
            transforms=chain.stages,
            current_properties=current_properties,
            topic_used=topic_used,
            class_name=lambda plugin: names.get(plugin, python_name(plugin)),
        )

    def _new(self, connector: Mapping[str, str], key: str, kind: PluginKind, names: dict[type, str]) -> Any:
        """Return a new converter, of the connector if it names one, and note the name of its class."""
        source = connector if key in connector else self._worker
        name = source.get(key, _HEADER_CONVERTER)
        made = self._plugins.new(name, kind, _version(source, f"{key}.{_VERSION}"))
        names[type(made)] = self._plugins.class_name(name) or name
        return made

    def _of_plugin(self, connector: Mapping[str, str], key: str) -> dict[str, str]:
        """The properties of a converter, which come from where its class is named."""
        source = connector if key in connector else self._worker
        prefix = f"{key}."
        return {name.removeprefix(prefix): value for name, value in source.items() if name.startswith(prefix)}

    def _class_of(self, kind: PluginKind, names: dict[type, str], name: str) -> type[Any]:
        """Return the class of a plugin by its name in a configuration, and note the name of the class."""
        found = self._plugins.find(name, (kind,))
        if found is None:
            raise ConfigInvalid(f"no {kind.value} has the name '{name}'")
        loaded = found.load()
        names[loaded] = found.name
        return loaded


def _version(properties: Mapping[str, str], key: str) -> VersionRange | None:
    return required_versions(properties.get(key))
