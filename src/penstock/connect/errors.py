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
