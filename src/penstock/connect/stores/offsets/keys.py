"""The keys and values of the offset topic: ``["connector",{partition}]`` and the offset in that partition."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from penstock.connect.data.json_text import from_json, to_json
from penstock.connect.errors import DataError

log = logging.getLogger(__name__)

Partition = Mapping[str, Any]
"""The thing that a source reads, such as a file or a table: names with primitive values."""
Offset = Mapping[str, Any]
"""The place up to which a source has read a partition: names with primitive values."""

_PRIMITIVES: Final = (bool, int, float, str, bytes, bytearray)


class OffsetKey(NamedTuple):
    """The content of a key."""

    connector: str
    partition: Partition


def require_primitives(content: Mapping[Any, Any] | None) -> None:
    """Check a partition or an offset. Raises DataError."""
    if content is None:
        return
    if not isinstance(content, Mapping):
        raise DataError("Offsets must be specified as a Map")
    for name, value in content.items():
        if not isinstance(name, str):
            raise DataError("Offsets may only use String keys")
        if value is not None and not isinstance(value, _PRIMITIVES):
            raise DataError(
                f"Offsets may only contain primitive types as values, but field {name} contains"
                f" {type(value).__name__}"
            )


def key_of(connector: str, partition: Partition) -> bytes:
    """Write the key of a partition. Raises DataError.

    The order of the names counts: brokers and Apache's workers compare keys byte by byte.
    """
    require_primitives(partition)
    key = to_json([connector, partition])
    assert key is not None
    return key


def value_of(offset: Offset | None) -> bytes | None:
    """Write an offset; None resets it. Raises DataError."""
    require_primitives(offset)
    return to_json(offset)


def parse_key(key: bytes | None) -> OffsetKey | None:
    """Read a key; None, with a log line, for one that is not a connector's with a partition."""
    try:
        content = from_json(key)
    except DataError as error:
        log.warning("an offset record was skipped key=%r error=%s", key, error)
        return None
    match content:
        case [str(connector), dict(partition)]:
            return OffsetKey(connector, partition)
        case [str(), None]:  # a connector without partitions
            return None
    log.warning("an offset record was skipped key=%r error=no connector and partition", key)
    return None


def parse_value(value: bytes | None) -> Offset | None:
    """Read an offset. Raises DataError."""
    offset: Offset | None = from_json(value)
    require_primitives(offset)
    return offset


def normalized(content: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a partition or an offset as a task will read it later, for example bytes as base64.

    Raises DataError.
    """
    require_primitives(content)
    found: dict[str, Any] | None = from_json(to_json(content))
    return found


def canonical(partition: Partition) -> bytes:
    """Return the same bytes for equal partitions, whatever the order of their names."""
    found = to_json({name: partition[name] for name in sorted(partition)})
    assert found is not None
    return found
