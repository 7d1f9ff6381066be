"""Joins of two tables by a foreign key, which is a function of the left table's rows (KIP-213).

    left table's tasks                     right table's tasks

    SendSubscription ─── topic ──▶ KeepSubscription ─▶ AnswerSubscription ─┐
                                   right table ──────▶ AnswerUpdate ───────┤
    JoinResponses ◀────────────────────────── topic ───────────────────────┘

A left row subscribes to its foreign key at the task that owns that key; each change there answers all
subscribers. An answer carries a hash of the row that subscribed: if the row has changed since then, the
answer is stale and is dropped, because another one is on its way. For that reason every change of an existing
row gets an answer, even if there is no foreign row. (Kafka Streams sends no answer in some of these cases;
there, a result may remain after its row is gone.)

The subscription's bytes are those of Kafka Streams except for the hash: 128 bits of BLAKE2b, which is built
into Python, instead of Murmur3. Only the application itself reads and writes both topics.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from hashlib import blake2b
from struct import Struct
from typing import Any, Final, NamedTuple

from penstock.protocol.murmur2 import partition_for_key
from penstock.topology.context import Context
from penstock.topology.errors import SerdeError
from penstock.topology.graph import Operator, Partitioner
from penstock.topology.operators.tables import TableOperator
from penstock.topology.records import Change, Forward, Headers
from penstock.topology.serdes import Serde
from penstock.topology.stores.state_stores import KeyValueStore

ForeignKey = Callable[[Any, Any], Any]
"""``(key, value) -> foreign key``, or None."""

_HASH_BYTES: Final = 16
_VERSION: Final = 1
_NO_HASH: Final = 0x80
_INT: Final = Struct(">i")


class Instruction(IntEnum):
    """The request that a subscription makes. The numbers are those of Kafka Streams."""

    DELETE = 0
    """Delete the subscription, and don't answer."""
    DELETE_AND_ANSWER = 1
    """Delete the subscription, and answer that there is no foreign row."""
    ANSWER = 2
    """Store the subscription, and answer in any case, because an earlier result may have to be deleted."""
    ANSWER_IF_THERE = 3
    """Store the subscription, and answer only if there is a foreign row: a new row has no earlier result."""


_KEPT: Final = (Instruction.ANSWER, Instruction.ANSWER_IF_THERE)


class Subscription(NamedTuple):
    """A left row's subscription. ``row_hash`` is the hash of the row's bytes; None if the row was deleted."""

    row_hash: bytes | None
    instruction: Instruction
    key: Any
    partition: int
    """The row's partition, to which the answer is sent."""


class Response(NamedTuple):
    """An answer: the foreign row, or None."""

    row_hash: bytes | None
    foreign: Any
    partition: int = -1
    """The partition to which the answer is sent; not serialized."""


def row_hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=_HASH_BYTES).digest()


def _head(hashed: bytes | None) -> bytes:
    return bytes([_VERSION]) if hashed is not None else bytes([_VERSION | _NO_HASH])


def _read_head(data: bytes, what: str) -> bool:
    """Check the version and return whether a hash follows."""
    if not data or data[0] & ~_NO_HASH != _VERSION:
        found = data[0] & ~_NO_HASH if data else "nothing"
        raise SerdeError(f"a {what} of a foreign-key join has version {_VERSION}, found {found}")
    return not data[0] & _NO_HASH


def subscription_serde(key: Serde[Any]) -> Serde[Subscription]:
    """Return the serde of subscriptions.

    The bytes are version (1), instruction (1), hash (16 or none), the row's key, and its partition (4).
    """

    def serialize(subscription: Subscription) -> bytes:
        hashed, instruction, primary, partition = subscription
        return b"".join(
            (_head(hashed), bytes([instruction]), hashed or b"", key.serialize(primary), _INT.pack(partition))
        )

    def deserialize(data: bytes) -> Subscription:
        start = 2 + (_HASH_BYTES if _read_head(data, "subscription") else 0)
        if len(data) < start + _INT.size:
            raise SerdeError(f"a subscription has at least {start + _INT.size} bytes, found {len(data)}")
        primary = key.deserialize(data[start : -_INT.size])
        partition = _INT.unpack_from(data, len(data) - _INT.size)[0]
        return Subscription(data[2:start] or None, Instruction(data[1]), primary, partition)

    name = f"subscription({key.name})"
    return Serde(serialize, deserialize, name=name, made_by=(subscription_serde, (key,)))


def response_serde(foreign: Serde[Any]) -> Serde[Response]:
    """Return the serde of answers.

    The bytes are version (1), hash (16 or none), whether there is a foreign row (1), and the row.
    """

    def serialize(response: Response) -> bytes:
        row = b"\x00" if response.foreign is None else b"\x01" + foreign.serialize(response.foreign)
        return _head(response.row_hash) + (response.row_hash or b"") + row

    def deserialize(data: bytes) -> Response:
        start = 1 + (_HASH_BYTES if _read_head(data, "response") else 0)
        if len(data) <= start:
            raise SerdeError(f"a response has at least {start + 1} bytes, found {len(data)}")
        row = foreign.deserialize(data[start + 1 :]) if data[start] else None
        return Response(data[1:start] or None, row)

    name = f"response({foreign.name})"
    return Serde(serialize, deserialize, name=name, made_by=(response_serde, (foreign,)))


def subscription_partitioner(key: Serde[Any]) -> Partitioner:
    """Return a partitioner by the foreign key, which matches the partitions of the right table.

    A left join's subscription without a foreign key is partitioned by the row's own key.
    """

    def choose(topic: str, foreign_key: Any, subscription: Subscription, partitions: int) -> int | None:
        if foreign_key is not None:
            return None
        return partition_for_key(key.serialize(subscription.key), partitions)

    return choose


def response_partitioner(topic: str, key: Any, response: Response, partitions: int) -> int:
    """Choose the partition of the task that subscribed."""
    return response.partition


class SendSubscription(Operator):
    """Sends the changes of the left table as subscriptions, by foreign key."""

    def __init__(
        self,
        foreign_key: ForeignKey,
        key: Serde[Any],
        value: Serde[Any],
        *,
        left: bool,
        tells_misses: bool = True,
    ) -> None:
        self.foreign_key = foreign_key
        self.tells_misses = tells_misses
        """Whether a new row without a match is sent as deleted, as Kafka Streams does since 3.7."""
        self.key = key
        """The serde of foreign keys: two are equal if their bytes are equal."""
        self.value = value
        self.left = left

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        foreign_key, key_to, value_to = self.foreign_key, self.key.serialize, self.value.serialize
        leaves = Instruction.DELETE if self.left else Instruction.DELETE_AND_ANSWER
        partition, drop, failed = context.partition, context.drop, context.failed
        asks_of_new = Instruction.ANSWER if self.tells_misses else Instruction.ANSWER_IF_THERE

        def process(key: Any, change: Change, timestamp_ms: int, headers: Headers) -> None:
            new_value, old_value, is_latest = change
            if not is_latest:
                drop(node)
                return
            try:
                new = None if new_value is None else foreign_key(key, new_value)
                old = None if old_value is None else foreign_key(key, old_value)
                moved = old is not None and (new is None or key_to(new) != key_to(old))
                hashed = None if new_value is None else row_hash(value_to(new_value))
            except Exception as error:
                failed(node, error)
                return
            order = Instruction.DELETE if new is not None else leaves
            if moved:
                forward(old, Subscription(hashed, order, key, partition), timestamp_ms, headers)
                if order == Instruction.DELETE_AND_ANSWER:
                    return
            if new_value is not None or old_value is not None:
                asks = asks_of_new if old_value is None else Instruction.ANSWER
                forward(new, Subscription(hashed, asks, key, partition), timestamp_ms, headers)

        return process


def _prefix(foreign_key: bytes) -> bytes:
    return _INT.pack(len(foreign_key)) + foreign_key


class KeepSubscription(Operator):
    """Stores subscriptions by foreign key and row's key, and forwards them."""

    def __init__(self, store: str, foreign_key: Serde[Any], key: Serde[Any]) -> None:
        self.store = store
        self.foreign_key = foreign_key
        self.key = key

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        store: KeyValueStore[bytes, Subscription] = context.store(self.store)
        foreign_to, key_to, failed = self.foreign_key.serialize, self.key.serialize, context.failed

        def process(key: Any, subscription: Subscription, timestamp_ms: int, headers: Headers) -> None:
            if key is not None:
                try:
                    stored_key = _prefix(foreign_to(key)) + key_to(subscription.key)
                    if subscription.instruction not in _KEPT:
                        store.delete(stored_key)
                    else:
                        store.put(stored_key, subscription, timestamp_ms)
                except Exception as error:
                    failed(node, error)
                    return
            forward(key, subscription, timestamp_ms, headers)

        return process


class AnswerSubscription(Operator):
    """Answers a new subscription with the existing foreign row."""

    def __init__(self, foreign: TableOperator) -> None:
        self.foreign = foreign

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        view, failed = self.foreign.view(context), context.failed

        def process(key: Any, subscription: Subscription, timestamp_ms: int, headers: Headers) -> None:
            hashed, instruction, primary, partition = subscription
            if instruction == Instruction.DELETE:
                return
            try:
                found = None if key is None else view(key)
            except Exception as error:
                failed(node, error)
                return
            if found is None and instruction == Instruction.ANSWER_IF_THERE:
                return
            row = None
            if found is not None:
                timestamp_ms = max(timestamp_ms, found[1])
                row = found[0] if instruction in _KEPT else None
            forward(primary, Response(hashed, row, partition), timestamp_ms, headers)

        return process


class AnswerUpdate(Operator):
    """Answers all subscribers of a foreign row that changed."""

    def __init__(self, store: str, foreign_key: Serde[Any]) -> None:
        self.store = store
        self.foreign_key = foreign_key

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        store: KeyValueStore[bytes, Subscription] = context.store(self.store)
        foreign_to, drop, failed = self.foreign_key.serialize, context.drop, context.failed

        def process(key: Any, change: Change, timestamp_ms: int, headers: Headers) -> None:
            if key is None or not change[2]:
                drop(node)
                return
            try:
                subscribers = [subscription for _, subscription in store.prefix(_prefix(foreign_to(key)))]
            except Exception as error:
                failed(node, error)
                return
            for hashed, _, primary, partition in subscribers:
                forward(primary, Response(hashed, change[0], partition), timestamp_ms, headers)

        return process


class JoinResponses(Operator):
    """Joins an answer with the row that subscribed, if that row is unchanged. None deletes the result."""

    def __init__(
        self, table: TableOperator, value: Serde[Any], joiner: Callable[[Any, Any], Any], *, left: bool
    ) -> None:
        self.table = table
        self.value = value
        self.joiner = joiner
        self.left = left

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        view, value_to, joiner, left = self.table.view(context), self.value.serialize, self.joiner, self.left
        drop, failed = context.drop, context.failed

        def process(key: Any, response: Response, timestamp_ms: int, headers: Headers) -> None:
            try:
                found = view(key)
                current = None if found is None else row_hash(value_to(found[0]))
                if current != response.row_hash:
                    drop(node)
                    return
                result = None
                if found is not None and (response.foreign is not None or left):
                    result = joiner(found[0], response.foreign)
            except Exception as error:
                failed(node, error)
                return
            forward(key, result, timestamp_ms, headers)

        return process
