"""Records as they enter, cross and leave a task.

Between nodes a record is no object: it is four arguments of a call, ``(key, value, timestamp_ms, headers)``.
An object for each node and record would cost as much as the work. Where user code asks for a record (the
process API), and where tests read one, it is a `Record`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Names and values in their order; a name may come more than once."""

NO_HEADERS: Final[Headers] = ()
NO_TIMESTAMP: Final = -1
"""Before the first record stream time is this, as in Kafka Streams."""

Forward: TypeAlias = Callable[[Any, Any, int, Headers], None]
"""How a record goes to a node: ``(key, value, timestamp_ms, headers)``."""

Change: TypeAlias = tuple[Any, Any, bool]
"""What table nodes forward as the value: ``(new, old, is_latest)``.

None stands for "no value", so a deletion is ``(None, old, True)``. ``old`` is None too where nothing
downstream asked for old values. ``is_latest`` is False only for an update of a versioned table that came out
of order (KIP-914).
"""

Output: TypeAlias = tuple[str, int | None, bytes | None, bytes | None, int, Headers]
"""What a task sends: ``(topic, partition, key, value, timestamp_ms, headers)``.

``partition`` None leaves it to Kafka's partitioner: murmur2 of the key, or any where the key is None.
"""


class Record(Generic[K, V]):
    """A record as user code sees it: ``key``, ``value``, ``timestamp_ms`` (since 1970, UTC) and
    ``headers``.
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

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        headers = f", {self.headers!r}" if self.headers else ""
        return f"Record({self.key!r}, {self.value!r}, {self.timestamp_ms}{headers})"

    def header(self, name: str) -> bytes | None:
        """The last header of this name, or None."""
        for key, value in reversed(self.headers):
            if key == name:
                return value
        return None


class Origin(NamedTuple):
    """Where the record that is being processed was read: the input record, not what nodes made of it."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}"
