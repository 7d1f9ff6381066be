"""Global tables: topics that every worker holds in full, for all tasks to read."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from penstock.topology.records import Input
from penstock.topology.stores.ordered_bytes import OrderedBytes

_TIME: Final = Struct(">q")


def follow(data: OrderedBytes, rows: Iterable[Input]) -> None:
    """Apply records of a global table's topic, in the order of their offsets within each partition.

    ``data`` is the map of the table's `KeyValueSpec`. A null value deletes; records with a null key are
    ignored. Bytes are stored unchecked: if a serde can't read them, the lookup fails, and the error names the
    node that looked them up.
    """
    data.apply(
        (row[4], None if row[5] is None else _TIME.pack(row[3]) + row[5])
        for row in rows
        if row[4] is not None
    )
