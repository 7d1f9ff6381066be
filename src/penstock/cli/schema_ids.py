"""A node's knowledge of schemas: the answers of a registry, cached for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from penstock.broker.partitions.schema_validation import NoSchemas
from penstock.registry.client.config import URL, RegistryConfig
from penstock.registry.client.errors import RegistryRefused, RegistryUnreachable
from penstock.registry.client.recent import Recent
from penstock.registry.client.registry import RegistryClient

KEPT_S: Final = 30.0
"""How long an answer is used; a schema deleted since is still accepted during this time."""

_PATIENCE: Final = {"http.connect.timeout.ms": "2000", "http.read.timeout.ms": "5000", "max.retries": "1"}
"""A producer waits for the registry, and other decoding may too.

The timeouts are short because producers retry by themselves.
"""


OF_NODE: Final = {
    "confluent.basic.auth.user.info": "basic.auth.user.info",
    "confluent.ssl.truststore.location": "schema.registry.ssl.truststore.location",
    "confluent.ssl.truststore.type": "schema.registry.ssl.truststore.type",
    "confluent.ssl.truststore.password": "schema.registry.ssl.truststore.password",
    "confluent.ssl.keystore.location": "schema.registry.ssl.keystore.location",
    "confluent.ssl.keystore.type": "schema.registry.ssl.keystore.type",
    "confluent.ssl.keystore.password": "schema.registry.ssl.keystore.password",
    "confluent.ssl.key.password": "schema.registry.ssl.key.password",
}
"""The configs of a node about its client of the registry, with the names that clients have for them."""


class RegisteredIds:
    """The `SchemaIds` of `broker/partitions/schema_validation`, by a registry's client. Thread-safe.

    ``url`` may list several registries. ``get`` returns the value of a config in `OF_NODE`, None if it is not
    set. Raises ConfigError.
    """

    def __init__(
        self,
        url: str,
        clock: Callable[[], float] = time.monotonic,
        get: Callable[[str], object] = lambda _: None,
    ) -> None:
        given = {name: str(value) for config, name in OF_NODE.items() if (value := get(config)) is not None}
        if "basic.auth.user.info" in given:
            given["basic.auth.credentials.source"] = "USER_INFO"
        self._client = RegistryClient(RegistryConfig.from_properties({**_PATIENCE, **given, URL: url}))
        self._known: Recent[int, frozenset[str]] = Recent(KEPT_S, clock)
        self._aliases: Recent[str, str] = Recent(KEPT_S, clock)  # "" if the name is no alias

    def subjects_of(self, schema_id: int, *, fresh: bool = False) -> frozenset[str]:
        known = None if fresh else self._known.get(schema_id)
        if known is None:
            with _asking(f"schema {schema_id}"):
                known = frozenset(self._client.subjects_of(schema_id))
            self._known.put(schema_id, known)
        return known

    def alias_of(self, subject: str, *, fresh: bool = False) -> str | None:
        known = None if fresh else self._aliases.get(subject)
        if known is None:
            with _asking(f"subject {subject}"):
                known = self._client.alias_of(subject) or ""
            self._aliases.put(subject, known)
        return known or None


@contextmanager
def _asking(what: str) -> Iterator[None]:
    try:
        yield
    except (RegistryUnreachable, RegistryRefused) as error:
        raise NoSchemas(f"the schema registry cannot look up {what}: {error}") from error
