"""Import Python classes by name, and tell which kinds of plugins they are."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from penstock.connect.connector.connector import Connector
from penstock.connect.connector.sink import SinkConnector, SinkTask
from penstock.connect.connector.source import SourceConnector, SourceTask
from penstock.connect.definitions.config_def import ConfigDef
from penstock.connect.errors import PluginNotFound
from penstock.connect.plugins.plugin import PluginKind

BASES: Final[dict[PluginKind, tuple[type[Any], ...]]] = {
    PluginKind.SOURCE: (SourceConnector, SourceTask),
    PluginKind.SINK: (SinkConnector, SinkTask),
}
METHODS: Final = {
    PluginKind.TRANSFORMATION: ("configure", "apply", "close"),
    PluginKind.PREDICATE: ("configure", "test", "close"),
    PluginKind.CONVERTER: ("configure", "to_bytes", "from_bytes"),
    PluginKind.HEADER_CONVERTER: ("configure", "to_bytes", "from_bytes"),
    PluginKind.CONFIG_PROVIDER: ("configure", "get", "close"),
    PluginKind.OVERRIDE_POLICY: ("configure", "allows"),
}
"""The methods of the interfaces that need no base class."""


def kinds_of(found: type[Any]) -> tuple[PluginKind, ...]:
    """The kinds of plugins that a class is; most classes are of one kind, and other classes of none."""
    if kinds := tuple(kind for kind, bases in BASES.items() if issubclass(found, bases)):
        return kinds
    return tuple(kind for kind in METHODS if has_methods(found, kind))


def has_methods(found: type[Any], kind: PluginKind) -> bool:
    if not all(callable(getattr(found, method, None)) for method in METHODS[kind]):
        return False
    if kind in (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER):
        converts_both = "is_key" in inspect.signature(found.configure).parameters
        return converts_both == (kind is PluginKind.CONVERTER)
    return True


def class_named(name: str) -> type[Any] | None:
    """Import the class ``module:Class`` or ``module.Class``; None if there is no such module or class.

    Raises:
        PluginNotFound: the module exists, and its import fails.
    """
    module, colon, path = name.partition(":")
    parts = [*module.split("."), *path.split(".")] if colon else module.split(".")
    if len(parts) < 2 or not all(map(str.isidentifier, parts)):
        return None
    if colon:
        return class_in(module, path.split("."), name)
    for length in range(len(parts) - 1, 0, -1):  # a class may lie in another one
        if (found := class_in(".".join(parts[:length]), parts[length:], name)) is not None:
            return found
    return None


def class_in(module: str, path: Sequence[str], name: str) -> type[Any] | None:
    """Import a module and return the class at a path in it; `name` is the one to show in errors."""
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            return None
        raise PluginNotFound(f"Failed to import {module} for the plugin {name}: {error}") from error
    except Exception as error:
        raise PluginNotFound(f"Failed to import {module} for the plugin {name}: {error!r}") from error
    for part in path:
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def why_missing(name: str) -> str | None:
    """Explain why there is no connector ``module:Class``; None for names of another form."""
    module, colon, path = name.partition(":")
    if not colon:
        return None
    try:
        is_found = find_spec(module) is not None
    except (ImportError, ValueError):
        is_found = False
    if is_found:
        return f"The module {module} has no class {path} that is a connector, a SourceTask or a SinkTask"
    return f"No module named {module} is among the worker's packages and in the directories of PYTHONPATH"


def full_name(found: type[Any]) -> str:
    return f"{found.__module__}.{found.__qualname__}"


def connector_class(found: type[Any]) -> type[Connector]:
    """Return a class of connectors itself, and the default connector around a class of tasks."""
    if issubclass(found, Connector):
        return found
    base = SourceConnector if issubclass(found, SourceTask) else SinkConnector
    members = {"task_class": found, "__doc__": found.__doc__, "__module__": found.__module__}
    return type(found.__name__, (base,), members)


def version_of(found: type[Any]) -> str | None:
    """The version that a class gives to itself, if any. A connector is made to ask it, as Connect does."""
    if issubclass(found, Connector):
        return found().version
    version = getattr(found, "version", None)
    return version if isinstance(version, str) else None


def plugin_definition(plugin: Any) -> ConfigDef:
    """The configuration that a plugin needs; one that defines none needs none."""
    definition = getattr(plugin, "definition", None)
    return definition if isinstance(definition, ConfigDef) else ConfigDef()


def close_plugin(plugin: Any) -> None:
    """Close a plugin that was only made to ask it; some have nothing to close."""
    if callable(closing := getattr(plugin, "close", None)):
        closing()
