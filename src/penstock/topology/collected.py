"""Collectors: the records of a batch that one node computes together. See `topology.tasks.stages`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from penstock.topology.context import Context
from penstock.topology.records import Forward, Headers
from penstock.topology.stores.state_stores import KeyValueStore
from penstock.topology.stores.window_stores import WindowStore, pack_start
from penstock.topology.vectorised import Vectorised

_TIME: Final = Struct(">q")


class Collected(ABC):
    """The records of a batch that one node has collected. ``send`` passes each result to the next stage."""

    @abstractmethod
    def take(self, key: Any, value: Any, timestamp_ms: int) -> int | None:
        """Collect a record; return its number in the batch, or None if nothing is to be sent for it."""

    @abstractmethod
    def compute(self) -> None:
        """Compute the results of all collected records."""

    @abstractmethod
    def send(self, number: int, record: tuple[Any, Any], timestamp_ms: int, headers: Headers) -> None:
        """Forward the result of a record, or report that the record failed."""

    @abstractmethod
    def clear(self) -> None:
        """Forget the batch, which is finished."""


class Failed(NamedTuple):
    """The result of a record that failed."""

    error: Exception


class Mapped(Collected):
    """The results of a vectorised function, one per record.

    ``forward(result, key, value, timestamp_ms, headers)`` sends a result, if there is anything to send.
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


Step = Callable[[Any, list[Any], Any], Any]
"""``(key, values, aggregate or None) -> aggregate``."""


class Vanished(Exception):
    """Raised when an aggregate became None within a batch, so that values must be folded one by one."""


class Folded(Collected):
    """The aggregates of a batch. Only a key's last update is sent, in the position of its last record."""

    def __init__(
        self,
        node: str,
        context: Context,
        store: KeyValueStore[Any, Any],
        step: Step,
        *,
        send_old: bool,
        forward: Forward,
    ) -> None:
        self._node = node
        self._context = context
        self._store = store
        self._step = step
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
            for number, result in folded(
                self._store, self._step, key_bytes, self._records, some, self._send_old
            ):
                self._results[number] = result

    def send(self, number: int, record: tuple[Any, Any], timestamp_ms: int, headers: Headers) -> None:
        result = self._results.get(number)
        if result is None:
            return  # a later record of the batch updated the key again
        if isinstance(result, Failed):
            self._context.failed(self._node, result.error)
        else:
            new, old, at_ms = result
            self._forward(record[0], (new, old, True), at_ms, headers)

    def clear(self) -> None:
        self._records, self._results = [], {}


class FoldedWindows(Collected):
    """The windowed aggregates of a batch. Only the last update of each key and window is sent.

    Args:
        windows_of: ``(timestamp_ms) -> starts`` of the open windows that a record belongs to. The function
            itself counts the record as dropped where a window has closed.
        windowed: ``(key, start) -> key``, the key to send.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        store: WindowStore[Any, Any],
        step: Step,
        windows_of: Callable[[int], Sequence[int]],
        windowed: Callable[[Any, int], Any],
        *,
        send_old: bool,
        forward: Forward,
    ) -> None:
        self._node = node
        self._context = context
        self._store = store
        self._step = step
        self._windows_of = windows_of
        self._windowed = windowed
        self._send_old = send_old
        self._forward = forward
        self._records: list[tuple[Any, Any, int]] = []
        self._starts: list[Sequence[int]] = []
        self._failed: dict[int, Exception] = {}
        self._results: dict[int, list[tuple[int, Any, Any, int]]] = {}

    def take(self, key: Any, value: Any, timestamp_ms: int) -> int | None:
        if key is None or value is None:
            self._context.drop(self._node)
            return None
        starts = self._windows_of(timestamp_ms)
        if not starts:
            return None
        self._records.append((key, value, timestamp_ms))
        self._starts.append(starts)
        return len(self._records) - 1

    def compute(self) -> None:
        key_to = self._store.key_serde.serialize
        numbers: dict[tuple[int, bytes], list[int]] = {}
        for number, (key, _, _) in enumerate(self._records):
            try:
                key_bytes = key_to(key)
            except Exception as error:
                self._failed[number] = error
                continue
            for start_ms in self._starts[number]:
                numbers.setdefault((start_ms, key_bytes), []).append(number)
        for (start_ms, key_bytes), some in numbers.items():
            stored_key = key_bytes + pack_start(start_ms, 0)
            for number, result in folded(
                self._store, self._step, stored_key, self._records, some, self._send_old
            ):
                if isinstance(result, Failed):
                    self._failed[number] = result.error
                else:
                    self._results.setdefault(number, []).append((start_ms, *result))
        self._store.expire()

    def send(self, number: int, record: tuple[Any, Any], timestamp_ms: int, headers: Headers) -> None:
        for start_ms, new, old, at_ms in self._results.get(number, ()):
            self._forward(self._windowed(record[0], start_ms), (new, old, True), at_ms, headers)
        if number in self._failed:
            self._context.failed(self._node, self._failed[number])

    def clear(self) -> None:
        self._records, self._starts, self._failed, self._results = [], [], {}, {}


def step_by(aggregator: Callable[[Any, Any, Any], Any], initializer: Callable[[], Any]) -> Step:
    """Turn a function that folds one value into a step that folds several."""

    def step(key: Any, values: list[Any], aggregate: Any) -> Any:
        last = len(values) - 1
        for number, value in enumerate(values):
            aggregate = aggregator(key, value, initializer() if aggregate is None else aggregate)
            if aggregate is None and number < last:
                raise Vanished
        return aggregate

    return step


def folded(
    store: KeyValueStore[Any, Any] | WindowStore[Any, Any],
    step: Step,
    stored_key: bytes,
    records: Sequence[tuple[Any, Any, int]],
    numbers: list[int],
    send_old: bool,
) -> Iterator[tuple[int, tuple[Any, Any, int] | Failed]]:
    """Fold the records of one key into its aggregate.

    Yields what to send for the last record, and for each record that failed.
    """
    stored = store.data.data.get(stored_key)
    old = None if stored is None or not send_old else store.value_serde.deserialize(stored[8:])
    if len(numbers) > 1:
        try:
            new, timestamp_ms = _update(store, step, stored_key, [records[n] for n in numbers])
            yield numbers[-1], (new, old, timestamp_ms)
            return
        except Exception:  # the loop below finds the record that failed
            pass
    last: tuple[int, tuple[Any, Any, int]] | None = None
    for number in numbers:
        try:
            new, timestamp_ms = _update(store, step, stored_key, [records[number]])
        except Exception as error:
            yield number, Failed(error)
            continue
        last = number, (new, old, timestamp_ms)
    if last is not None:
        yield last


def _update(
    store: KeyValueStore[Any, Any] | WindowStore[Any, Any],
    step: Step,
    stored_key: bytes,
    records: list[tuple[Any, Any, int]],
) -> tuple[Any, int]:
    """Store the new aggregate and its timestamp, and return both."""
    data = store.data
    timestamp_ms = max(record[2] for record in records)
    stored = data.data.get(stored_key)
    aggregate = None if stored is None else store.value_serde.deserialize(stored[8:])
    new = step(records[0][0], [record[1] for record in records], aggregate)
    if stored is not None:
        timestamp_ms = max(timestamp_ms, _TIME.unpack_from(stored)[0])
    if new is None:
        data.delete(stored_key)
    else:
        data.put(stored_key, _TIME.pack(timestamp_ms) + store.value_serde.serialize(new))
    return new, timestamp_ms
