"""Stateless operators, which process each record by itself.

Functions take the same arguments as in Kafka Streams: ``(key, value)``, or only the value if the key can't
change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.topology.collected import Collected, Mapped
from penstock.topology.context import Context
from penstock.topology.graph import Operator
from penstock.topology.records import Forward, Headers
from penstock.topology.vectorised import Vectorised


@dataclass(frozen=True, slots=True)
class PassThrough(Operator):
    """Forwards records unchanged; it merges streams."""

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        return forward


@dataclass(frozen=True, slots=True)
class Filter(Operator):
    """Forwards records whose predicate is true, or with ``negate`` records whose predicate is false."""

    predicate: Callable[[Any, Any], object]
    negate: bool = False

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        predicate, negate, failed = self.predicate, self.negate, context.failed

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                kept = bool(predicate(key, value)) is not negate
            except Exception as error:
                failed(node, error)
                return
            if kept:
                forward(key, value, timestamp_ms, headers)

        return process

    @property
    def takes_batches(self) -> bool:
        return isinstance(self.predicate, Vectorised)

    def collected(self, node: str, context: Context, forward: Forward) -> Collected:
        assert isinstance(self.predicate, Vectorised), "only a vectorised function takes batches"
        negate = self.negate

        def send(result: Any, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if bool(result) is not negate:
                forward(key, value, timestamp_ms, headers)

        return Mapped(node, context, self.predicate, True, send)


@dataclass(frozen=True, slots=True)
class MapRecord(Operator):
    """Replaces key and value: ``(key, value) -> (key, value)``."""

    function: Callable[[Any, Any], tuple[Any, Any]]

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        function, failed = self.function, context.failed

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                key, value = function(key, value)
            except Exception as error:
                failed(node, error)
                return
            forward(key, value, timestamp_ms, headers)

        return process


@dataclass(frozen=True, slots=True)
class MapValues(Operator):
    """Replaces the value: ``value -> value``."""

    function: Callable[[Any], Any]

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        function, failed = self.function, context.failed

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                value = function(value)
            except Exception as error:
                failed(node, error)
                return
            forward(key, value, timestamp_ms, headers)

        return process

    @property
    def takes_batches(self) -> bool:
        return isinstance(self.function, Vectorised)

    def collected(self, node: str, context: Context, forward: Forward) -> Collected:
        assert isinstance(self.function, Vectorised), "only a vectorised function takes batches"

        def send(result: Any, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            forward(key, result, timestamp_ms, headers)

        return Mapped(node, context, self.function, False, send)


@dataclass(frozen=True, slots=True)
class MapValuesWithKey(Operator):
    """Replaces the value: ``(key, value) -> value``."""

    function: Callable[[Any, Any], Any]

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        function, failed = self.function, context.failed

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                value = function(key, value)
            except Exception as error:
                failed(node, error)
                return
            forward(key, value, timestamp_ms, headers)

        return process

    @property
    def takes_batches(self) -> bool:
        return isinstance(self.function, Vectorised)

    def collected(self, node: str, context: Context, forward: Forward) -> Collected:
        assert isinstance(self.function, Vectorised), "only a vectorised function takes batches"

        def send(result: Any, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            forward(key, result, timestamp_ms, headers)

        return Mapped(node, context, self.function, True, send)


@dataclass(frozen=True, slots=True)
class SelectKey(Operator):
    """Replaces the key: ``(key, value) -> key``."""

    function: Callable[[Any, Any], Any]

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        function, failed = self.function, context.failed

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                key = function(key, value)
            except Exception as error:
                failed(node, error)
                return
            forward(key, value, timestamp_ms, headers)

        return process

    @property
    def takes_batches(self) -> bool:
        return isinstance(self.function, Vectorised)

    def collected(self, node: str, context: Context, forward: Forward) -> Collected:
        assert isinstance(self.function, Vectorised), "only a vectorised function takes batches"

        def send(result: Any, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            forward(result, value, timestamp_ms, headers)

        return Mapped(node, context, self.function, True, send)


@dataclass(frozen=True, slots=True)
class FlatMap(Operator):
    """Replaces a record by several: ``(key, value) -> [(key, value), …]``.

    If the function fails, nothing is forwarded for the record.
    """

    function: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        function, failed = self.function, context.failed

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                results = [(new_key, new_value) for new_key, new_value in function(key, value)]
            except Exception as error:
                failed(node, error)
                return
            for new_key, new_value in results:
                forward(new_key, new_value, timestamp_ms, headers)

        return process


@dataclass(frozen=True, slots=True)
class FlatMapValues(Operator):
    """Replaces a value by several: ``value -> [value, …]``, or ``(key, value) -> [value, …]``."""

    function: Callable[..., Iterable[Any]]
    with_key: bool = False

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        function, with_key, failed = self.function, self.with_key, context.failed

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                results = list(function(key, value) if with_key else function(value))
            except Exception as error:
                failed(node, error)
                return
            for result in results:
                forward(key, result, timestamp_ms, headers)

        return process


@dataclass(frozen=True, slots=True)
class Peek(Operator):
    """Calls ``action`` and forwards the record; with ``last`` the stream ends here, as in foreach."""

    action: Callable[[Any, Any], object]
    last: bool = False

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        action, last, failed = self.action, self.last, context.failed

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                action(key, value)
            except Exception as error:
                failed(node, error)
                return
            if not last:
                forward(key, value, timestamp_ms, headers)

        return process


@dataclass(frozen=True, slots=True)
class Branch(Operator):
    """Sends each record to the child of the first true predicate, else to ``default``, else nowhere."""

    predicates: Sequence[tuple[str, Callable[[Any, Any], object]]]
    default: list[str]
    """The name of the child for the remaining records, if there is one; set after the node was created."""

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        children, failed = context.children[node], context.failed
        cases = [(predicate, children[child]) for child, predicate in self.predicates]
        rest = children[self.default[0]] if self.default else None

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            target = rest
            try:
                for predicate, child in cases:
                    if predicate(key, value):
                        target = child
                        break
            except Exception as error:
                failed(node, error)
                return
            if target is not None:
                target(key, value, timestamp_ms, headers)

        return process
