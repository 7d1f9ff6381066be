"""The client of schema registries, ours or Confluent's: it looks up and registers schemas.

`RegistryConfig` defines the properties, `RegistryClient` sends the requests and caches the answers, and
`shared_registry` returns the one client of a process. HTTP is the standard library's. Only code that talks to
a registry belongs here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock.extras import needs_extra
from penstock.registry.client.config import RegistryConfig
from penstock.registry.client.errors import RegistryError, RegistryRefused, RegistryUnreachable

if TYPE_CHECKING:
    from penstock.registry.client.registry import Registered, RegistryClient, shared_registry

__all__ = [
    "Registered",
    "RegistryClient",
    "RegistryConfig",
    "RegistryError",
    "RegistryRefused",
    "RegistryUnreachable",
    "shared_registry",
]

_MODULES: Final = {
    "Registered": "penstock.registry.client.registry",
    "RegistryClient": "penstock.registry.client.registry",
    "shared_registry": "penstock.registry.client.registry",
}


def __getattr__(name: str) -> object:
    """Import the client on its first use: every Python worker of Spark imports the properties."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra("registry", f"penstock.registry.client.{name}"):
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
