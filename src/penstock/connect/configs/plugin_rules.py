"""Validate and recommend the values of keys that name plugins or require versions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connect.definitions.config_key import Validator
from penstock.connect.definitions.config_types import invalid
from penstock.connect.definitions.validators import CompositeValidator
from penstock.connect.errors import ConfigInvalid
from penstock.connect.plugins.loading import close_plugin
from penstock.connect.plugins.plugin import PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.versions import required_versions

ABSTRACT = "This class is abstract and cannot be created."


def check_concrete(plugins: Plugins, kind: PluginKind, name: str) -> None:
    """Check that a class is a plugin of a kind.

    Raises:
        ConfigInvalid: it is another class, or an abstract one.
    """
    if (found := plugins.find(name, (kind,))) is not None:
        if inspect.isabstract(found.load()):
            raise ConfigInvalid(ABSTRACT)
    elif choices := plugins.nested(name, (kind,)):
        raise ConfigInvalid(f"{ABSTRACT} Did you mean {', '.join(choices)}?")
    else:
        raise ConfigInvalid(f"Class class {name} does not implement the {kind.interface} interface")


@dataclass(frozen=True)
class ConcretePlugin:
    """Accepts the name of a plugin of one kind; any name if the plugins are not known."""

    plugins: Plugins | None
    kind: PluginKind

    def __call__(self, name: str, value: Any) -> None:
        if self.plugins is not None and value is not None:
            check_concrete(self.plugins, self.kind, value)

    def __str__(self) -> str:
        return f"A concrete subclass of {self.kind.interface_class}"


@dataclass(frozen=True)
class InstantiablePlugin:
    """Accepts the name of a plugin that can be made without arguments."""

    plugins: Plugins | None
    kind: PluginKind

    def __call__(self, name: str, value: Any) -> None:
        if self.plugins is None or value is None:
            return
        try:
            made = self.plugins.new(value, self.kind)
        except Exception as error:
            raise invalid(name, value, f"Could not instantiate class: {error}") from error
        close_plugin(made)

    def __str__(self) -> str:
        return "A class with a public, no-argument constructor"


def plugin_validator(plugins: Plugins | None, kind: PluginKind) -> Validator:
    """Accept the name of a plugin of a kind that can be made."""
    return CompositeValidator(ConcretePlugin(plugins, kind), InstantiablePlugin(plugins, kind))


class PluginVersionValidator:
    """Accepts a version or a range of versions."""

    def __call__(self, name: str, value: Any) -> None:
        required_versions(value)


@dataclass(frozen=True)
class PluginRecommender:
    """Recommends all plugins of a kind."""

    plugins: Plugins | None
    kind: PluginKind

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        if self.plugins is None:
            return []
        return list(dict.fromkeys(plugin.name for plugin in self.plugins.of_kind(self.kind)))

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return True


@dataclass(frozen=True)
class VersionRecommender:
    """Recommends the versions of the plugin that another key names, the first of the kinds that has any."""

    plugins: Plugins | None
    kinds: tuple[PluginKind, ...]
    of: str
    """The key that names the plugin."""
    is_always_visible: bool = False

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        if self.plugins is None or (plugin := parsed.get(self.of)) is None:
            return []
        found = (self.plugins.versions(plugin, kind) for kind in self.kinds)
        return next((list(dict.fromkeys(versions)) for versions in found if versions), [])

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self.is_always_visible or parsed.get(self.of) is not None
