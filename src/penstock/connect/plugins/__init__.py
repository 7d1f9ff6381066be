"""The plugins of a worker: connectors, converters, transforms, predicates, config providers and policies.

    registry   finds a plugin by the name in a configuration
    plugin     one plugin, and the kinds that there are
    loading    imports Python classes and tells their kinds
    versions   compares versions, and ranges of them, as Maven does

Nothing here knows a configuration. Classes are imported when they are first used.
"""

from penstock.connect.plugins.plugin import Plugin, PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.shipped import shipped_plugins

__all__ = ["Plugin", "PluginKind", "Plugins", "shipped_plugins"]
