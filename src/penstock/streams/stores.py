"""Store definitions for processors: ``stream.process(…, stores=[key_value_store("seen", …)])``.

Each function returns a definition. A processor gets the store itself from ``self.context.store(name)``: a
`KeyValueStore`, `WindowStore`, `SessionStore` or `VersionedStore`. Serdes that are not given default to the
application's. ``logged=False`` omits the changelog topic; such a store is lost together with the checkpoint.
"""

from __future__ import annotations

from typing import Any

from penstock.streams.builder import NO_SERDE
from penstock.streams.durations import Duration, duration_ms
from penstock.topology.serdes import Serde
from penstock.topology.stores.state_stores import (
    KeyValueSpec,
    KeyValueStore,
    VersionedRecord,
    VersionedSpec,
    VersionedStore,
)
from penstock.topology.stores.window_stores import SessionSpec, SessionStore, WindowSpec, WindowStore

__all__ = [
    "KeyValueStore",
    "SessionStore",
    "VersionedRecord",
    "VersionedStore",
    "WindowStore",
    "key_value_store",
    "session_store",
    "versioned_store",
    "window_store",
]


def key_value_store(
    name: str,
    *,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
    ttl: Duration | None = None,
    logged: bool = True,
) -> KeyValueSpec:
    """Define a store of the latest value of each key.

    With ``ttl`` a value expires once stream time has passed its timestamp by that much.
    """
    return KeyValueSpec(
        name=name,
        key=key or NO_SERDE,
        value=value or NO_SERDE,
        ttl_ms=None if ttl is None else duration_ms(ttl, "ttl"),
        logged=logged,
    )


def window_store(
    name: str,
    *,
    size: Duration,
    retention: Duration,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
    duplicates: bool = False,
    logged: bool = True,
) -> WindowSpec:
    """Define a store of values by key and window start, kept for ``retention``.

    With ``duplicates`` a key may have several values per window.
    """
    return WindowSpec(
        name=name,
        key=key or NO_SERDE,
        value=value or NO_SERDE,
        window_size_ms=duration_ms(size, "size"),
        retention_ms=duration_ms(retention, "retention"),
        duplicates=duplicates,
        logged=logged,
    )


def session_store(
    name: str,
    *,
    retention: Duration,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
    logged: bool = True,
) -> SessionSpec:
    """Define a store of values by key and session, kept for ``retention``."""
    return SessionSpec(
        name=name,
        key=key or NO_SERDE,
        value=value or NO_SERDE,
        retention_ms=duration_ms(retention, "retention"),
        logged=logged,
    )


def versioned_store(
    name: str,
    *,
    history: Duration,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
    logged: bool = True,
) -> VersionedSpec:
    """Define a store of all values of each key by timestamp, kept for ``history`` (KIP-889)."""
    return VersionedSpec(
        name=name,
        key=key or NO_SERDE,
        value=value or NO_SERDE,
        history_retention_ms=duration_ms(history, "history"),
        logged=logged,
    )
