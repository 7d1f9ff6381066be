"""What one node has taken of a batch, to compute it together. See `penstock.topology.batches`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NamedTuple

from penstock.topology.context import Context
from penstock.topology.records import Forward, Headers
from penstock.topology.stores import KeyValueStore
from penstock.topology.vectorised import Vectorised

_TIME: Final = Struct(">q")


class Collected(ABC):
    """The records that one node has taken of a batch. ``sent`` gives one to the next stage."""

    @abstractmethod
    def take(self, key: Any, value: Any, timestamp_ms: int) -> int | None:
        """Take a record; gives its number among those taken, or None where nothing is to be sent for it."""

    @abstractmethod
    def compute(self) -> None:
        """All that were taken."""

    @abstractmethod
    def send(self, number: int, record: tuple[Any, Any], timestamp_ms: int, headers: Headers) -> None:
        """Forward what became of a record, or report that it failed."""

    @abstractmethod
    def clear(self) -> None:
        """The batch is done."""


class Failed(NamedTuple):
    """Stands for a result."""

    error: Exception


class Mapped(Collected):
    """What a vectorised function makes of each record.

    ``forward(result, key, value, timestamp_ms, headers)`` sends on what is to be sent.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        function: Vectorised,
        with_key: bool,
        forward: Callable[[Any, Any, Any, int, Headers], None],
    ) -> None:
        self._node = node
        self._context = context
        self._function = function
        self._with_key = with_key
        self._forward = forward
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._results: list[Any] = []

    def take(self, key: Any, value: Any, timestamp_ms: int) -> int:
        self._keys.append(key)
        self._values.append(value)
        return len(self._values) - 1

    def compute(self) -> None:
        columns = (self._keys, self._values) if self._with_key else (self._values,)
        if not self._values:
            return
        try:
            self._results = self._function.many(*columns)
        except Exception:
            self._results = [self._one(*arguments) for arguments in zip(*columns, strict=True)]

    def _one(self, *arguments: Any) -> Any:
        try:
            return self._function(*arguments)
        except Exception as error:
            return Failed(error)

    def send(self, number: int, record: tuple[Any, Any], timestamp_ms: int, headers: Headers) -> None:
        result = self._results[number]
        if isinstance(result, Failed):
            self._context.failed(self._node, result.error)
        else:
            self._forward(result, *record, timestamp_ms, headers)

    def clear(self) -> None:
        self._keys, self._values, self._results = [], [], []


class Folded(Collected):
    """The aggregates of a batch: of each key the last update is sent, in the place of its last record.

    Args:
        step: ``(key, values, aggregate or None) -> aggregate``.
        whole: whether ``step`` takes several values; else it gets them one by one.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        store: KeyValueStore[Any, Any],
        step: Callable[[Any, list[Any], Any], Any],
        *,
        whole: bool,
        send_old: bool,
        forward: Forward,
    ) -> None:
        self._node = node
        self._context = context
        self._store = store
        self._step = step
        self._whole = whole
        self._send_old = send_old
        self._forward = forward
        self._records: list[tuple[Any, Any, int]] = []
        self._results: dict[int, tuple[Any, Any, int] | Failed] = {}

    def take(self, key: Any, value: Any, timestamp_ms: int) -> int | None:
        if key is None or value is None:
            self._context.drop(self._node)
            return None
        self._records.append((key, value, timestamp_ms))
        return len(self._records) - 1

    def compute(self) -> None:
        key_to, numbers = self._store.key_serde.serialize, dict[bytes, list[int]]()
        for number, (key, _, _) in enumerate(self._records):
            try:
                numbers.setdefault(key_to(key), []).append(number)
            except Exception as error:
                self._results[number] = Failed(error)
        for key_bytes, some in numbers.items():
            self._fold(key_bytes, some)

    def _fold(self, key_bytes: bytes, numbers: list[int]) -> None:
        stored = self._store.data.data.get(key_bytes)
        old = (
            None if stored is None or not self._send_old else self._store.value_serde.deserialize(stored[8:])
        )
        if self._whole and len(numbers) > 1:
            try:
                new, timestamp_ms = self._update(key_bytes, numbers)
                self._results[numbers[-1]] = new, old, timestamp_ms
                return
            except Exception:  # which record it is comes out below
                pass
        last: int | None = None
        for number in numbers:
            try:
                new, timestamp_ms = self._update(key_bytes, [number])
            except Exception as error:
                self._results[number] = Failed(error)
                continue
            if last is not None:
                del self._results[last]
            last = number
            self._results[number] = new, old, timestamp_ms

    def _update(self, key_bytes: bytes, numbers: list[int]) -> tuple[Any, int]:
        """The new aggregate and its timestamp, which are in the store then."""
        store, data = self._store, self._store.data
        key = self._records[numbers[0]][0]
        values = [self._records[number][1] for number in numbers]
        timestamp_ms = max(self._records[number][2] for number in numbers)
        stored = data.data.get(key_bytes)
        new = self._step(key, values, None if stored is None else store.value_serde.deserialize(stored[8:]))
        if stored is not None:
            timestamp_ms = max(timestamp_ms, _TIME.unpack_from(stored)[0])
        if new is None:
            data.delete(key_bytes)
        else:
            data.put(key_bytes, _TIME.pack(timestamp_ms) + store.value_serde.serialize(new))
        return new, timestamp_ms

    def send(self, number: int, record: tuple[Any, Any], timestamp_ms: int, headers: Headers) -> None:
        result = self._results.get(number)
        if result is None:
            return  # a later record of the batch has updated the key again
        if isinstance(result, Failed):
            self._context.failed(self._node, result.error)
        else:
            new, old, at_ms = result
            self._forward(record[0], (new, old, True), at_ms, headers)

    def clear(self) -> None:
        self._records, self._results = [], {}
