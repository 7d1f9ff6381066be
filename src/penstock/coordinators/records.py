"""One record of a coordinator's topic, as coordinators return and replay it."""

from typing import NamedTuple, TypeAlias

from penstock.protocol.codec import Message

__all__ = ["CoordinatorRecord", "Records"]


class CoordinatorRecord(NamedTuple):
    """A key with its value; None as the value makes it a tombstone."""

    key: Message
    value: Message | None = None
    value_version: int = 0


Records: TypeAlias = list[CoordinatorRecord]
"""The records a handler appends as one batch before its response may be sent."""
