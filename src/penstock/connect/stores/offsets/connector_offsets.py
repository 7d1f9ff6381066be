"""The offsets of one connector: in the worker's topic, in one of its own, or in both.

A connector may keep its offsets in a topic of its own (``offsets.storage.topic``, KIP-618). That topic is the
primary one: its offsets win, and a write counts once it is there. The worker's topic gets the same offsets
afterwards, so that the connector can return to it. Resets go to the worker's topic first: otherwise a crash
in between would let the old offset there come back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.errors import ConnectError, DataError
from penstock.connect.stores.key_value import KeyValue
from penstock.connect.stores.offsets.image import distinct
from penstock.connect.stores.offsets.keys import (
    Offset,
    Partition,
    key_of,
    parse_value,
    value_of,
)
from penstock.connect.stores.offsets.store import OffsetBytes, OffsetStore

log = logging.getLogger(__name__)


class ConnectorOffset(NamedTuple):
    """A source partition and its offset, as REST shows them."""

    partition: Partition
    offset: Offset | None


class ConnectorOffsets:
    """The offsets of one connector. The stores belong to the caller, which starts and closes them.

    Args:
        connector: the name of the connector.
        worker: the store of the worker's topic; None if the connector's own topic is that one.
        own: the store of the connector's own topic, if it has one.
    """

    def __init__(self, connector: str, worker: OffsetStore | None, own: OffsetStore | None = None) -> None:
        primary = own or worker
        if primary is None:
            raise ValueError(f"connector '{connector}' has no store of offsets, expected at least one")
        self.connector = connector
        self._primary = primary
        self._secondary = worker if own is not None else None

    @property
    def topic(self) -> str:
        """The primary topic."""
        return self._primary.topic

    # Reads

    def refresh(self, timeout_s: float) -> None:
        """Return once all records now in the topics are replayed. Raises TimeoutError and ConnectError."""
        deadline_s = time.monotonic() + timeout_s
        for store in self._stores:
            store.refresh(max(0.0, deadline_s - time.monotonic()))

    def offset(self, partition: Partition) -> Offset | None:
        """The offset of a partition, as it was last read. Raises DataError for an invalid partition."""
        [found] = self.offsets([partition])
        return found

    def offsets(self, partitions: Collection[Partition]) -> list[Offset | None]:
        """The offsets of these partitions, in their order; None for those without one.

        An offset that cannot be read counts as missing, as in Connect, and is logged.
        """
        wanted = [self._key(partition) for partition in partitions]
        values: dict[bytes, bytes] = {}
        for store in self._stores:
            values = store.get(wanted) | values
        return [self._parsed(key, values.get(key)) for key in wanted]

    def listed(self) -> list[ConnectorOffset]:
        """All partitions of the connector and their offsets, for REST."""
        partitions = distinct(self._keys())
        return [ConnectorOffset(*each) for each in zip(partitions, self.offsets(partitions), strict=True)]

    def _key(self, partition: Partition) -> bytes:
        """The key of a partition: the one that was written, even with its names in another order."""
        found = (store.key_for(self.connector, partition) for store in self._stores)
        return next((key for key in found if key is not None), None) or key_of(self.connector, partition)

    def _keys(self) -> Mapping[bytes, Partition]:
        found: dict[bytes, Partition] = {}
        for store in self._stores:
            found = {**store.keys(self.connector), **found}
        return found

    @property
    def _stores(self) -> list[OffsetStore]:
        """The stores, the primary one first."""
        return [self._primary] if self._secondary is None else [self._primary, self._secondary]

    def _parsed(self, key: bytes, value: bytes | None) -> Offset | None:
        try:
            return parse_value(value)
        except DataError as error:
            log.error(
                "an offset cannot be read, the task may skip or repeat data key=%r error=%s", key, error
            )
            return None

    # Writes

    def encoded(self, offsets: Iterable[tuple[Partition, Offset | None]]) -> dict[bytes, bytes | None]:
        """The records of these offsets, the last one of each partition. Raises DataError."""
        return {self._key(partition): value_of(offset) for partition, offset in offsets}

    def reset(self) -> dict[bytes, bytes | None]:
        """The records that reset all offsets of the connector, under every key that was written."""
        return dict.fromkeys(self._keys())

    def set(self, offsets: OffsetBytes) -> None:
        """Write offsets, plainly. Raises ConnectError if the primary topic does not have them."""
        self.before_commit(offsets)
        self._primary.set(offsets)
        self.after_commit(offsets)

    def placed(self, offsets: OffsetBytes) -> dict[TopicPartition, list[KeyValue]]:
        """The records of these offsets and where they belong in the primary topic, for a transaction.

        The task calls `before_commit` first, and `after_commit` once the transaction is committed.
        """
        return self._primary.placed(offsets)

    def before_commit(self, offsets: OffsetBytes) -> None:
        """Write resets to the secondary topic. Raises ConnectError."""
        if self._secondary is not None:
            self._secondary.set({key: None for key, value in offsets.items() if value is None})

    def after_commit(self, offsets: OffsetBytes) -> None:
        """Write the other offsets to the secondary topic; a failure is only logged, as the offsets count."""
        if self._secondary is None:
            return
        try:
            self._secondary.set({key: value for key, value in offsets.items() if value is not None})
        except ConnectError as error:
            log.warning("offsets are missing in the worker's topic error=%s", error)
