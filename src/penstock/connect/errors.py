"""Errors of connectors, their records and their configurations, named after Kafka's."""

from __future__ import annotations

from penstock.errors import PenstockError


class ConnectError(PenstockError):
    """The base class of all exceptions of penstock.connect (Connect's ConnectException)."""


class DataError(ConnectError, ValueError):
    """A value does not fit its schema, or bytes are not what a converter writes (Connect's DataException)."""


class RetriableError(ConnectError):
    """An operation failed and may succeed if it is repeated (Connect's RetriableException)."""


class ConfigInvalid(ConnectError, ValueError):
    """A configuration lacks a value or has one that cannot be used (Kafka's ConfigException)."""


class PluginNotFound(ConfigInvalid):
    """No plugin of the expected kind has this name, or its module cannot be imported."""


class PluginVersionInvalid(ConfigInvalid):
    """No plugin has the required version; `available` are the versions that there are."""

    def __init__(self, message: str, available: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.available = available


class ReplicationProtocolError(ConnectError):
    """A database sent what its replication protocol does not allow, or what is not supported."""


class ChangesLost(ConnectError):
    """The database no longer has changes that come after the stored offset; a new snapshot is needed."""
