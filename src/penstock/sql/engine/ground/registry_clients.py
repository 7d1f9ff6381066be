"""The client of the schema registry that a statement's properties name."""

from __future__ import annotations

from penstock.registry.client.config import URL, RegistryConfig
from penstock.registry.client.registry import RegistryClient, shared_registry
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.properties import Values


def registry_of(values: Values) -> RegistryClient | None:
    """The client of the registry, or None if none is configured."""
    given = values.registry()
    return shared_registry(RegistryConfig.from_properties(given)) if URL in given else None


def required_registry(values: Values, what: str) -> RegistryClient:
    """The client of the registry, which ``what`` needs. Raises EngineError if none is configured."""
    found = registry_of(values)
    if found is None:
        raise EngineError(
            f"found {what} without a schema registry, expected 'ksql.schema.registry.url' in the server's "
            "properties",
            ErrorCode.SCHEMA_REGISTRY_UNCONFIGURED,
        )
    return found
