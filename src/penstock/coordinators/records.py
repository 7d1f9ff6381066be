"""One record of a coordinator's topic, as the coordinators hand it out and take it back."""

from typing import NamedTuple, TypeAlias

from penstock.protocol.codec import Message

__all__ = ["CoordinatorRecord", "Records"]


class CoordinatorRecord(NamedTuple):
    """A key, and a value or None for a tombstone."""

    key: Message
    value: Message | None = None
    value_version: int = 0


#: What a handler wants in the log: together, before its answer leaves.
Records: TypeAlias = list[CoordinatorRecord]
