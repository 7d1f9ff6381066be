"""Records as they enter, cross and leave a task.

Between nodes a record is not an object but the four arguments of a call, ``(key, value, timestamp_ms,
headers)``: creating an object per node and record would cost as much as the work itself. User code that
receives records (the process API) and tests get a `Record`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Names and values in order; a name may occur more than once."""

NO_HEADERS: Final[Headers] = ()
NO_TIMESTAMP: Final = -1
"""The stream time before the first record, as in Kafka Streams."""

Forward: TypeAlias = Callable[[Any, Any, int, Headers], None]
"""The call that passes a record to a node: ``(key, value, timestamp_ms, headers)``."""

Change: TypeAlias = tuple[Any, Any, bool]
"""The value that table nodes forward: ``(new, old, is_latest)``.

None stands for "no value", so a deletion is ``(None, old, True)``. ``old`` is also None if nothing downstream
needs old values. ``is_latest`` is False only for an update of a versioned table that arrived out of order
(KIP-914).
"""

Input: TypeAlias = tuple[str, int, int, int, bytes | None, bytes | None, Headers]
"""A record as read: ``(topic, partition, offset, timestamp_ms, key, value, headers)``."""

Output: TypeAlias = tuple[str, int | None, bytes | None, bytes | None, int, Headers]
"""A record that a task sends: ``(topic, partition, key, value, timestamp_ms, headers)``.

``partition`` None leaves the choice to Kafka's partitioner: murmur2 of the key, or any partition without a
key.
"""


class Record(Generic[K, V]):
    """A record as user code sees it.

    ``timestamp_ms`` is in milliseconds since 1970, UTC.
    """

    __slots__ = ("headers", "key", "timestamp_ms", "value")

    def __init__(self, key: K, value: V, timestamp_ms: int, headers: Headers = NO_HEADERS) -> None:
        self.key = key
        self.value = value
        self.timestamp_ms = timestamp_ms
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Record)
            and self.key == other.key
            and self.value == other.value
            and self.timestamp_ms == other.timestamp_ms
            and self.headers == other.headers
        )

    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable

    def __repr__(self) -> str:
        headers = f", {self.headers!r}" if self.headers else ""
        return f"Record({self.key!r}, {self.value!r}, {self.timestamp_ms}{headers})"

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header of this name, or None."""
        for key, value in reversed(self.headers):
            if key == name:
                return value
        return None


class Origin(NamedTuple):
    """The place from which the current input record was read, whatever nodes derived from it."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}"
