"""Stream operations that process each record by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from penstock.streams.builder import Builder
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Node, Operator
from penstock.topology.serdes import Serde
from penstock.topology.stateless import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    MapRecord,
    MapValues,
    MapValuesWithKey,
    PassThrough,
    Peek,
    SelectKey,
)

if TYPE_CHECKING:
    from penstock.streams.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class RecordByRecord(Generic[K, V]):
    """The stateless operations of `Stream`: each turns a stream's records, one by one, into a new stream."""

    def __init__(
        self,
        builder: Builder,
        node: Node,
        *,
        key: Serde[K] | None,
        value: Serde[V] | None,
        topics: frozenset[str],
        rekeyed: bool = False,
    ) -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._value = value
        self._topics = topics
        """The topics (bare names) in whose partitions the records are."""
        self._rekeyed = rekeyed
        """Whether keys may have changed since then, so that equal keys may be in different partitions."""

    def __repr__(self) -> str:
        return f"<Stream {self._node.name}>"

    def _then(
        self,
        prefix: str,
        name: str | None,
        operator: Operator,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        rekeyed: bool = False,
    ) -> Stream[Any, Any]:
        node = self._builder.processor(self._builder.name(name, prefix), operator, [self._node])
        return self._made(node, key, value, self._topics, self._rekeyed or rekeyed)

    def _made(
        self,
        node: Node,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        topics: frozenset[str],
        rekeyed: bool,
    ) -> Stream[Any, Any]:
        made = type(self)(self._builder, node, key=key, value=value, topics=topics, rekeyed=rekeyed)
        return cast("Stream[Any, Any]", made)

    def apply(
        self,
        operator: Operator,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        rekeyed: bool = False,
        name: str | None = None,
    ) -> Stream[Any, Any]:
        """Process the records with an operator of `penstock.topology`; a serde not given stays.

        ``rekeyed`` says that the operator changes keys, so that later grouping or joining repartitions.
        """
        return self._then(
            "KSTREAM-TRANSFORM-",
            name,
            operator,
            key=key or self._key,
            value=value or self._value,
            rekeyed=rekeyed,
        )

    # record by record

    def filter(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]:
        """Keep the records for which ``predicate(key, value)`` is true."""
        return self._then("KSTREAM-FILTER-", name, Filter(predicate), key=self._key, value=self._value)

    def filter_not(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]:
        """Keep the records for which ``predicate(key, value)`` is false."""
        operator = Filter(predicate, negate=True)
        return self._then("KSTREAM-FILTER-", name, operator, key=self._key, value=self._value)

    def map(
        self,
        function: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Replace key and value by those that ``function(key, value)`` returns.

        Grouping or joining afterwards repartitions.
        """
        return self._then("KSTREAM-MAP-", name, MapRecord(function), key=key, value=value, rekeyed=True)

    @overload
    def map_values(
        self,
        function: Callable[[V], V2],
        *,
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(
        self,
        function: Callable[[K, V], V2],
        *,
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    def map_values(
        self,
        function: Callable[..., Any],
        *,
        with_key: bool = False,
        value: Serde[Any] | None = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        """Replace the value by ``function(value)``, or by ``function(key, value)`` with ``with_key=True``."""
        operator: Operator = MapValuesWithKey(function) if with_key else MapValues(function)
        return self._then("KSTREAM-MAPVALUES-", name, operator, key=self._key, value=value)

    def select_key(
        self, selector: Callable[[K, V], K2], *, key: Serde[K2] | None = None, name: str | None = None
    ) -> Stream[K2, V]:
        """Replace the key by ``selector(key, value)``. Grouping or joining afterwards repartitions."""
        operator = SelectKey(selector)
        return self._then("KSTREAM-KEY-SELECT-", name, operator, key=key, value=self._value, rekeyed=True)

    def flat_map(
        self,
        function: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Replace each record by the keys and values, any number, that ``function(key, value)`` returns.

        Grouping or joining afterwards repartitions.
        """
        return self._then("KSTREAM-FLATMAP-", name, FlatMap(function), key=key, value=value, rekeyed=True)

    @overload
    def flat_map_values(
        self,
        function: Callable[[V], Iterable[V2]],
        *,
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def flat_map_values(
        self,
        function: Callable[[K, V], Iterable[V2]],
        *,
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    def flat_map_values(
        self,
        function: Callable[..., Iterable[Any]],
        *,
        with_key: bool = False,
        value: Serde[Any] | None = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        """Replace each value by any number of values.

        ``function(value)`` returns them, or ``function(key, value)`` with ``with_key=True``.
        """
        operator = FlatMapValues(function, with_key)
        return self._then("KSTREAM-FLATMAPVALUES-", name, operator, key=self._key, value=value)

    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]:
        """Call ``action(key, value)`` for each record, and pass the record on unchanged.

        A retried batch calls it again.
        """
        return self._then("KSTREAM-PEEK-", name, Peek(action), key=self._key, value=self._value)

    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Call ``action(key, value)`` for each record and end the stream. A retried batch calls it again."""
        self._then("KSTREAM-FOREACH-", name, Peek(action, last=True))

    # several streams

    def merge(self, *others: Stream[K, V], name: str | None = None) -> Stream[K, V]:
        """Merge the records of this stream and of others, in the order of arrival."""
        streams = (self, *others)
        node = self._builder.processor(
            self._builder.name(name, "KSTREAM-MERGE-"), PassThrough(), [stream._node for stream in streams]
        )
        return self._made(
            node,
            _shared([stream._key for stream in streams]),
            _shared([stream._value for stream in streams]),
            frozenset().union(*(stream._topics for stream in streams)),
            any(stream._rekeyed for stream in streams),
        )

    def split(
        self,
        branches: dict[str, Callable[[K, V], object]],
        *,
        default: str | None = None,
        name: str | None = None,
    ) -> dict[str, Stream[K, V]]:
        """Send each record to the first branch whose predicate ``(key, value)`` is true.

        A record that matches no branch goes to the branch ``default`` if one is named, and is dropped
        otherwise. Returns the streams by name.

            >>> from penstock.streams import App, json, string
            >>> app = App("orders", key=string, value=json)
            >>> orders = app.stream("orders").split({"large": lambda k, v: v["sum"] > 99}, default="small")
            >>> orders["large"].to("large-orders")
        """
        if not branches or (default is not None and default in branches):
            raise TopologyError(
                f"split takes at least one branch, and a default that is none of them: {[*branches]}"
            )
        splitter = self._builder.name(name, "KSTREAM-BRANCH-")
        prefix = f"{splitter}-" if name is None else splitter
        predicates = [(f"{prefix}{branch}", predicate) for branch, predicate in branches.items()]
        rest = [] if default is None else [f"{prefix}{default}"]
        for _ in (*branches, *rest):
            self._builder.number("KSTREAM-BRANCHCHILD-")
        node = self._builder.processor(splitter, Branch(predicates, rest), [self._node])
        streams: dict[str, Stream[K, V]] = {}
        for branch in (*branches, *([] if default is None else [default])):
            child = self._builder.processor(f"{prefix}{branch}", PassThrough(), [node])
            streams[branch] = self._made(child, self._key, self._value, self._topics, self._rekeyed)
        return streams


def _shared(serdes: list[Serde[Any] | None]) -> Serde[Any] | None:
    """The serde that all streams share, or None."""
    return serdes[0] if all(serde is serdes[0] for serde in serdes) else None
