"""A query of a store, and its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from penstock.views.catalog import ViewedStore
from penstock.views.position import Position
from penstock.views.reads import Read

T = TypeVar("T")

DEFAULT_TIMEOUT_S: Final = 5.0
"""How long a query waits by default for a position, and for a store that is still being read."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A value and the position of the logs at which it was read: it contains everything before that."""

    value: T
    position: Position


@dataclass(frozen=True)
class Query:
    """A read of a store.

    Attributes:
        partitions: the partitions to read; None: those that the key may be in, or all.
        at_least: what the answer must cover: offsets of the store's log, of topics that the application
            reads, or both.
    """

    store: ViewedStore
    read: Read
    partitions: tuple[int, ...] | None = None
    at_least: Position = field(default_factory=Position)
