"""The state of incremental snapshots, as stored offsets hold it under Debezium's names. Pure.

``incremental_snapshot_primary_key`` is the key of the last row that was written, and ``…_maximum_key`` that
of the last row to read, both as arrays serialized by Java. ``…_collections`` lists the tables that are left,
the present one first, and ``…_correlation_id`` is the id of the signal. Two names are additions: ``…_paused``
keeps a paused snapshot paused over a restart, and ``blocking_snapshot`` names the tables of a blocking
snapshot that has not ended.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from penstock.connect.cdc.signals.java_arrays import read_array, write_array

log = logging.getLogger(__name__)

Key = tuple[Any, ...]
"""The values of a key's columns: numbers, booleans, texts or None."""

_KEY: Final = "incremental_snapshot"
PRIMARY_KEY: Final = f"{_KEY}_primary_key"
MAXIMUM_KEY: Final = f"{_KEY}_maximum_key"
COLLECTIONS: Final = f"{_KEY}_collections"
CORRELATION_ID: Final = f"{_KEY}_correlation_id"
PAUSED: Final = f"{_KEY}_paused"
BLOCKING: Final = "blocking_snapshot"


class DataCollection(NamedTuple):
    """A table to read, a condition on its rows, and the column to read it by instead of its key."""

    name: str
    condition: str = ""
    surrogate_key: str | None = None


@dataclass
class Progress:
    """The tables that are left, and the place in the first of them.

    `sent` is the key of the last row that was written, None before the first. `maximum` is the key of the
    last row at the start; rows that are inserted after it come with the stream.
    """

    collections: list[DataCollection] = field(default_factory=list)
    sent: Key | None = None
    maximum: Key | None = None
    correlation_id: str | None = None
    is_paused: bool = False
    blocking: list[DataCollection] = field(default_factory=list)

    @staticmethod
    def of(offset: Mapping[str, Any]) -> Progress:
        """Read a stored offset. A key that cannot be read lets the table begin again."""
        made = Progress(
            _collections(offset.get(COLLECTIONS)),
            correlation_id=offset.get(CORRELATION_ID),
            is_paused=bool(offset.get(PAUSED)),
            blocking=_collections(offset.get(BLOCKING)),
        )
        try:
            made.sent, made.maximum = _key(offset.get(PRIMARY_KEY)), _key(offset.get(MAXIMUM_KEY))
        except ValueError as error:
            log.warning("incremental snapshot reads its table again, its key is unknown reason=%s", error)
        if made.maximum is None:
            made.sent = None
        return made

    def offset(self) -> dict[str, Any]:
        """The part of an offset; empty if no snapshot runs."""
        made: dict[str, Any] = {}
        if self.collections:
            made = {
                PRIMARY_KEY: write_array(self.sent),
                MAXIMUM_KEY: write_array(self.maximum),
                COLLECTIONS: _listed(self.collections),
                CORRELATION_ID: self.correlation_id,
            }
            if self.is_paused:
                made[PAUSED] = True
        if self.blocking:
            made[BLOCKING] = _listed(self.blocking)
            made[CORRELATION_ID] = self.correlation_id
        return made

    @property
    def is_running(self) -> bool:
        """Whether tables are left, also if the snapshot is paused."""
        return bool(self.collections)

    @property
    def current(self) -> DataCollection:
        """The table that is being read."""
        return self.collections[0]

    def next_collection(self) -> None:
        """Leave the present table."""
        del self.collections[0]
        self.sent = self.maximum = None

    def remove(self, names: Sequence[str]) -> list[str]:
        """Leave out tables, perhaps the present one; returns those that were there."""
        removed = [each.name for each in self.collections if each.name in names]
        if removed and self.current.name in removed:
            self.sent = self.maximum = None
        self.collections = [each for each in self.collections if each.name not in removed]
        self.is_paused = self.is_paused and self.is_running
        return removed


def _collections(text: str | None) -> list[DataCollection]:
    return [
        DataCollection(
            each[f"{COLLECTIONS}_id"],
            each.get(f"{COLLECTIONS}_additional_condition") or "",
            each.get(f"{COLLECTIONS}_surrogate_key") or None,
        )
        for each in json.loads(text or "[]")
    ]


def _listed(collections: Sequence[DataCollection]) -> str:
    return json.dumps(
        [
            {
                f"{COLLECTIONS}_id": each.name,
                f"{COLLECTIONS}_additional_condition": each.condition or None,
                f"{COLLECTIONS}_surrogate_key": each.surrogate_key,
            }
            for each in collections
        ],
        separators=(",", ":"),
    )


def _key(text: str | None) -> Key | None:
    return None if text is None else read_array(text)
