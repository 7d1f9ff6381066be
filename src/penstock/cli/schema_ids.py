"""What a node knows of schemas: a registry is asked, and its answers are remembered for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.broker.schema_validation import NoSchemas
from penstock.registry.client.config import URL, RegistryConfig
from penstock.registry.client.errors import RegistryRefused, RegistryUnreachable
from penstock.registry.client.registry import RegistryClient

#: An answer is good for so long; a schema that is deleted since is taken meanwhile.
KEPT_S: Final = 30.0
#: A producer waits meanwhile, and so may other decoding: it tries again by itself.
_PATIENCE: Final = {"http.connect.timeout.ms": "2000", "http.read.timeout.ms": "5000", "max.retries": "1"}


class RegisteredIds:
    """`penstock.broker.schema_validation.SchemaIds` by a registry's client. Safe in several threads.

    ``url`` may be several. Raises ConfigError.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = RegistryClient(RegistryConfig.from_properties({**_PATIENCE, URL: url}))
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[int, tuple[float, frozenset[str]]] = {}

    def subjects_of(self, schema_id: int, *, fresh: bool = False) -> frozenset[str]:
        now_s = self._clock()
        with self._lock:
            asked_s, subjects = self._known.get(schema_id, (float("-inf"), frozenset()))
        if not fresh and now_s - asked_s < KEPT_S:
            return subjects
        try:
            found = frozenset(self._client.subjects_of(schema_id))
        except (RegistryUnreachable, RegistryRefused) as error:
            raise NoSchemas(f"the schema registry does not tell of schema {schema_id}: {error}") from error
        with self._lock:
            self._known[schema_id] = now_s, found
        return found
