"""A record that a store writes."""

from __future__ import annotations

from typing import NamedTuple


class KeyValue(NamedTuple):
    """The key and the value of a record to write; a value of None is a tombstone."""

    key: bytes
    value: bytes | None
