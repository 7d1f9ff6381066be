"""The order in which the changes of one batch are applied.

By default that is the order of the log: all changes of a row are in one partition, since its key is the
record's key. Only a truncate concerns rows of other partitions. It is placed among their changes by the
source's log position (``lsn``), which both have, or else by the source's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.changes.events import Kind

KIND: Final = "kind"
POSITION: Final = "position"
_LOG: Final = ("topic", "partition", "offset")
_STAGE: Final = "stage"


def order_of_log(places: pa.Table) -> pa.Array:
    """Return the indices of changes in the log's order.

    The columns of ``places`` are topic, partition, offset, position and kind.
    """
    is_truncate = pc.equal(places[KIND], pa.scalar(int(Kind.TRUNCATE), pa.int8()))
    truncates = places.filter(is_truncate).to_pylist()
    if truncates:
        stages = [_stage(place, truncates) for place in places.to_pylist()]
        places = places.append_column(_STAGE, pa.array(stages, pa.int64()))
    by = [name for name in (_STAGE, *_LOG) if name in places.column_names]
    return pc.sort_indices(places, sort_keys=[(name, "ascending") for name in by])


def _stage(place: dict[str, Any], truncates: Sequence[dict[str, Any]]) -> int:
    """Return a number that grows with the truncates before a change; a truncate comes after its peers."""
    before = sum(_is_after(place, truncate) for truncate in truncates)
    return 2 * before + int(place[KIND] == Kind.TRUNCATE)


def _is_after(place: dict[str, Any], truncate: dict[str, Any]) -> bool:
    if (place["topic"], place["partition"]) == (truncate["topic"], truncate["partition"]):
        return bool(place["offset"] > truncate["offset"])
    if place[POSITION] is None or truncate[POSITION] is None:
        return False
    return bool(place[POSITION] > truncate[POSITION])


def order_of_sequences(places: pa.Table, sequences: Sequence[Any]) -> pa.Array:
    """Return the indices of changes by their values of `sequence_by`; equal ones in the log's order."""
    log = order_of_log(places).to_pylist()
    return pa.array(sorted(log, key=sequences.__getitem__), pa.int64())
