"""The credentials of a host's clients, which stay out of the plans that its checkpoint keeps.

A member's plan has the settings of its clients, with passwords and keys in them. Everybody who can read the
checkpoint could take them from there, and a plan of last month would still log in by last month's password.
So a stored plan has only the other settings. The host, which gets its credentials anew at each start, sends
them with the query, and each process that reads a plan puts them in.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from pyspark import cloudpickle

from penstock.client.config import ClientConfig
from penstock.client.security.security_config import SecurityConfig
from penstock.registry.client.config import RegistryConfig

_OF_SECURITY: Final = frozenset(field.name for field in fields(SecurityConfig))
_OF_REGISTRY: Final = frozenset(
    ("url_user_info", "credentials_source", "user_info", "token_source", "token", "tls")
)


class MissingCredentials(RuntimeError):
    """The plan of a member logs in to a registry, for which this host has no credentials."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The settings of a host's own clients: of the cluster, and of the schema registry if there is one."""

    client: ClientConfig
    registry: RegistryConfig | None = None


def dumps(plan: object) -> bytes:
    """Pickle a plan without the credentials in it."""
    file = io.BytesIO()
    _Pickler(file).dump(plan)  # type: ignore[no-untyped-call]
    return file.getvalue()


def loads(data: bytes, credentials: Credentials) -> Any:
    """Unpickle a plan, and put the credentials in. Raises MissingCredentials."""
    return _Unpickler(io.BytesIO(data), credentials).load()


class _Pickler(cloudpickle.Pickler):
    def persistent_id(self, found: object) -> tuple[str, dict[str, Any]] | None:
        """The name and the remaining settings of a client's configuration; None for anything else."""
        if isinstance(found, ClientConfig):
            return "client", _without(found, _OF_SECURITY)
        if isinstance(found, RegistryConfig) and _has_credentials(found):
            return "registry", _without(found, _OF_REGISTRY)
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, credentials: Credentials) -> None:
        super().__init__(file)
        self._credentials = credentials

    def persistent_load(self, stored: tuple[str, dict[str, Any]]) -> ClientConfig | RegistryConfig:
        name, settings = stored
        if name == "client":
            return replace(self._credentials.client, **settings)
        if self._credentials.registry is None:
            raise MissingCredentials(
                f"a member's plan logs in to the schema registry at {settings['urls'][0]}: expected the "
                "registry's properties at the start of its host, too"
            )
        return replace(self._credentials.registry, **settings)


def _has_credentials(found: RegistryConfig) -> bool:
    secrets = (getattr(found, field.name) for field in fields(found) if not field.repr)
    return found.tls != SecurityConfig() or any(secret is not None for secret in secrets)


def _without(found: ClientConfig | RegistryConfig, left_out: frozenset[str]) -> dict[str, Any]:
    return {f.name: getattr(found, f.name) for f in fields(found) if f.name not in left_out}
