"""Definitions of stores, for processors: ``stream.process(…, stores=[key_value_store("seen", …)])``.

Each gives a definition; the store itself, which ``self.context.store(name)`` hands to a processor, is a
`KeyValueStore`, `WindowStore`, `SessionStore` or `VersionedStore`. Serdes that are not given are the
application's. ``logged=False`` leaves out the changelog topic: then the store is lost with the checkpoint.
"""

from __future__ import annotations

from typing import Any

from penstock.streams.builder import NO_SERDE
from penstock.streams.durations import Duration, duration_ms
from penstock.topology.serdes import Serde
from penstock.topology.stores import (
    KeyValueSpec,
    KeyValueStore,
    VersionedRecord,
    VersionedSpec,
    VersionedStore,
)
from penstock.topology.window_stores import SessionSpec, SessionStore, WindowSpec, WindowStore

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
    """The latest value of each key. With ``ttl`` it is gone when stream time is that much past its
    timestamp.
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
    """Values by key and start of window, for as long as ``retention``; several a window with
    ``duplicates``.
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
    """Values by key and session, for as long as ``retention``."""
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
    """All values of each key by their timestamps, for as long as ``history`` (KIP-889)."""
    return VersionedSpec(
        name=name,
        key=key or NO_SERDE,
        value=value or NO_SERDE,
        history_retention_ms=duration_ms(history, "history"),
        logged=logged,
    )
