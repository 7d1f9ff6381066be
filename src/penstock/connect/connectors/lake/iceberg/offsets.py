"""The offsets that a table's snapshots carry.

A snapshot of the sink has, in one property, the next offset of each partition of which the table has records.
It repeats those of the snapshots before it, so the newest one with the property has all. A table that is
rolled back to an older snapshot has the offsets of that time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.client.connections.metadata import TopicPartition

if TYPE_CHECKING:
    from pyiceberg.table import Table

PROPERTY: Final = "penstock.connect.offsets."
"""Begins the name of the property, followed by the name of the connector."""

Stored = Mapping[TopicPartition, int]


def stored_offsets(table: Table, connector: str) -> Stored:
    """Return the offsets in the current snapshot, or in the newest one before it that has any."""
    name = PROPERTY + connector
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary
        text = None if summary is None else summary.additional_properties.get(name)
        if text is not None:
            found = json.loads(text)
            return {TopicPartition(topic, int(partition)): offset for topic, partition, offset in found}
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return {}


def with_offsets(connector: str, stored: Stored, added: Stored) -> dict[str, str]:
    """Return the properties of a snapshot that adds offsets to the stored ones."""
    every = sorted({**stored, **added}.items())
    return {PROPERTY + connector: json.dumps([[tp.topic, tp.partition, offset] for tp, offset in every])}
