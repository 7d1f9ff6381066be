"""The client of schema registries, ours or Confluent's: it looks up and registers schemas.

`RegistryConfig` defines the properties, `RegistryClient` sends the requests and caches the answers, and
`shared_registry` returns the one client of a process. HTTP is the standard library's. Only code that talks to
a registry belongs here.
"""

from penstock.registry.client.config import RegistryConfig
from penstock.registry.client.errors import RegistryError, RegistryRefused, RegistryUnreachable
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
