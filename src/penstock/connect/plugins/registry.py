"""Find plugins by the names in configurations: Java's class names, aliases, and names of Python classes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any, Final

from penstock.connect.connector.connector import Connector
from penstock.connect.errors import PluginNotFound, PluginVersionInvalid
from penstock.connect.plugins.loading import (
    class_named,
    connector_class,
    full_name,
    kinds_of,
    version_of,
    why_missing,
)
from penstock.connect.plugins.plugin import CONNECTORS, UNDEFINED_VERSION, Plugin, PluginKind
from penstock.connect.plugins.versions import VersionRange
from penstock.java.strings import utf16

log = logging.getLogger(__name__)

ENTRY_POINTS: Final = "penstock.connect"
"""The group of entry points by which packages offer plugins."""
ALL_KINDS: Final = tuple(PluginKind)


class Plugins:
    """All plugins that a worker can use.

    A name in a configuration is, in this order: the full name of a plugin, an alias (``JsonConverter``,
    ``Json``, ``FileStreamSource``, ``InsertField$Value``), or a class in Python (``module:Class`` or
    ``module.Class``).
    """

    def __init__(self, plugins: Iterable[Plugin] = (), *, from_packages: bool = True) -> None:
        """Use `plugins`, and with `from_packages` those that installed packages offer by entry points.

        Of two with the same name and kind, the first counts.
        """
        self._given = list(plugins)
        self._from_packages = from_packages

    def of_kind(self, kind: PluginKind) -> list[Plugin]:
        """The plugins of one kind that are installed, sorted by name."""
        return self._by_kind[kind]

    def installed(self) -> list[Plugin]:
        """All plugins in the order in which GET /connector-plugins lists them (`Plugin.as_json`)."""
        return [plugin for kind in LISTED for plugin in self.of_kind(kind)]

    def find(self, name: str, kinds: Collection[PluginKind] = ALL_KINDS) -> Plugin | None:
        """Return the plugin that a name stands for, or None.

        Raises:
            PluginNotFound: the name is that of a Python class whose module cannot be imported.
        """
        found = self._by_name.get(self._aliases.get(name, name))
        if found is None and (loaded := class_named(name)) is not None:
            found = self._by_name.get(full_name(loaded)) or python_plugins(loaded)
        return next((plugin for plugin in found or () if plugin.kind in kinds), None)

    def class_name(self, name: str) -> str | None:
        """Return the full name of the class that a name stands for, for `ConfigDef.parse(find_class=…)`.

        A class that is no plugin has a name too: validators say what is wrong with it.

        Raises:
            PluginNotFound: the name is that of a Python class whose module cannot be imported.
        """
        full = self._aliases.get(name, name)
        if full in self._by_name or self.nested(full):
            return full
        loaded = class_named(name)
        return None if loaded is None else full_name(loaded)

    def nested(self, name: str, kinds: Collection[PluginKind] = ALL_KINDS) -> list[str]:
        """The plugins inside a class of Java, such as the key and the value form of a transform."""
        return [
            full
            for full, plugins in self._by_name.items()
            if full.startswith(f"{name}$") and any(plugin.kind in kinds for plugin in plugins)
        ]

    def versions(self, name: str, kind: PluginKind) -> list[str]:
        """The versions of the plugins of one kind with this full name or alias."""
        full = self._aliases.get(name, name)
        return [plugin.version for plugin in self._by_name.get(full, ()) if plugin.kind is kind]

    def latest_version(self, name: str | None, kinds: Collection[PluginKind]) -> str | None:
        """The version of a plugin that is installed; None without a plugin, or without a version."""
        if name is None:
            return None
        found = self._by_name.get(self._aliases.get(name, name), ())
        return next((plugin.version for plugin in found if plugin.kind in kinds), None)

    def connector(self, name: str, version: VersionRange | None = None) -> Connector:
        """Return a new connector; a `SourceTask` or `SinkTask` gets the default connector around it.

        Raises:
            PluginNotFound: no connector has the name.
            PluginVersionInvalid: its version does not match the required one (``connector.plugin.version``).
        """
        self._check_version(name, version)
        found = self.find(name, CONNECTORS) or self._connector_by_simple_name(name)
        return connector_class(found.load())()

    def connector_kind(self, name: str) -> PluginKind:
        """Return whether a connector is a source or a sink, without making it.

        The constructor of a user's class may fail, which must not end the thread that asks.

        Raises:
            PluginNotFound: no connector has the name, or its module cannot be imported.
        """
        if self._aliases.get(name, name) not in self._by_name and (loaded := class_named(name)) is not None:
            for kind in kinds_of(loaded):
                if kind in CONNECTORS:
                    return kind
        return (self.find(name, CONNECTORS) or self._connector_by_simple_name(name)).kind

    def class_of(self, name: str, kind: PluginKind, version: VersionRange | None = None) -> type[Any]:
        """Return the class of a plugin that is no connector.

        Raises:
            PluginNotFound: no plugin of this kind has the name.
            PluginVersionInvalid: its version does not match the required one.
        """
        self._check_version(name, version)
        if (found := self.find(name, (kind,))) is not None:
            return found.load()
        raise PluginNotFound(
            f"Failed to find any class that implements {kind.interface} and which name matches {name}, "
            f"available plugins are: {', '.join(map(str, self.of_kind(kind)))}"
        )

    def new(self, name: str, kind: PluginKind, version: VersionRange | None = None) -> Any:
        """Return a new object of a plugin that is no connector, such as a converter, not configured.

        Raises:
            PluginNotFound: no plugin of this kind has the name.
            PluginVersionInvalid: its version does not match the required one.
        """
        return self.class_of(name, kind, version)()

    def _connector_by_simple_name(self, name: str) -> Plugin:
        """Find a connector whose alias several plugins have, and refuse all other names as Connect does."""
        connectors = sorted(
            (plugin for kind in CONNECTORS for plugin in self.of_kind(kind)),
            key=lambda each: utf16(each.name),
        )
        shown = ", ".join(map(str, connectors))
        matches = [each for each in connectors if simple_name(each.name) in (name, f"{name}Connector")]
        if not matches:
            if (reason := why_missing(name)) is not None:
                raise PluginNotFound(reason)
            raise PluginNotFound(
                "Failed to find any class that implements Connector and which name matches "
                f"{name}, available connectors are: {shown}"
            )
        if len(matches) > 1:
            raise PluginNotFound(
                f"More than one connector matches alias {name}. Please use full package and class name "
                f"instead. Classes found: {shown}"
            )
        return matches[0]

    def _check_version(self, name: str, required: VersionRange | None) -> None:
        """Check the version of a class. Connect does this first, even if the class is of another kind."""
        if required is None or (full := self.class_name(name)) is None:
            return
        available = tuple(plugin.version for plugin in self._by_name.get(full, ()))
        if not available:
            where = "Connect's plugin loading mechanism (ClassPath or Plugin Path)"
            raise PluginVersionInvalid(f"Plugin {full} is not part of {where}")
        if not any(version in required for version in available):
            raise PluginVersionInvalid(
                f"Plugin {full} not found that matches the version range {required}, "
                f"available versions: [{', '.join(available)}]",
                available,
            )

    @cached_property
    def _by_kind(self) -> Mapping[PluginKind, list[Plugin]]:
        found: dict[tuple[str, PluginKind], Plugin] = {}
        for plugin in (*self._given, *(packaged_plugins() if self._from_packages else ())):
            found.setdefault((plugin.name, plugin.kind), plugin)
        plugins = sorted(found.values(), key=lambda plugin: utf16(plugin.name))
        return {kind: [plugin for plugin in plugins if plugin.kind is kind] for kind in PluginKind}

    @cached_property
    def _by_name(self) -> Mapping[str, list[Plugin]]:
        named: dict[str, list[Plugin]] = {}
        for plugins in self._by_kind.values():
            for plugin in plugins:
                named.setdefault(plugin.name, []).append(plugin)
        return named

    @cached_property
    def _aliases(self) -> Mapping[str, str]:
        """The full names of aliases; an alias of several classes is none."""
        named: dict[str, set[str]] = {}
        for full, plugins in self._by_name.items():
            for alias in {alias for plugin in plugins for alias in aliases_of(plugin)}:
                named.setdefault(alias, set()).add(full)
        return {alias: full for alias, (full, *others) in named.items() if not others}


LISTED: Final = (
    *(PluginKind.SINK, PluginKind.SOURCE, PluginKind.TRANSFORMATION, PluginKind.PREDICATE),
    *(PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER),
)
"""The kinds that GET /connector-plugins lists, in its order."""


def simple_name(full: str) -> str:
    """The name of a class without its package, and without the class in which it lies."""
    return full.rpartition(".")[2].rpartition("$")[2]


def aliases_of(plugin: Plugin) -> Iterable[str]:
    """The short names of a plugin: without its package, and also without the name of its kind."""
    simple = simple_name(plugin.name)
    suffix = "Connector" if plugin.kind in CONNECTORS else plugin.kind.interface
    at = simple.rfind(suffix)
    pruned = simple[:at] if at > 0 else simple
    return simple, pruned, plugin.name.rpartition(".")[2], *plugin.aliases


def python_plugins(loaded: type[Any], version: str | None = None, *aliases: str) -> list[Plugin]:
    """The plugins that a Python class is, one of each kind. A version that the class has itself counts."""
    version = version_of(loaded) or version or UNDEFINED_VERSION
    return [Plugin(full_name(loaded), kind, version, lambda: loaded, aliases) for kind in kinds_of(loaded)]


def packaged_plugins() -> Iterable[Plugin]:
    """The plugins that installed packages offer, with the names of the entry points as aliases.

    One that cannot be imported is logged and left out.
    """
    for entry in entry_points(group=ENTRY_POINTS):
        version = None if entry.dist is None else entry.dist.version
        try:
            found = python_plugins(entry.load(), version, entry.name)
        except Exception as error:
            log.warning("A plugin cannot be loaded entry_point=%s error=%r", entry.value, error)
            continue
        if not found:
            log.warning("An entry point is no plugin entry_point=%s", entry.value)
        yield from found
