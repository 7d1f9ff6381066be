"""Applies changes to a table of the current rows, one for each key: slowly changing dimensions of type 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.arrow.table_rows import Identity
from penstock.spark.changes.events import Events, Kind, Row


@dataclass(slots=True)
class CurrentRows:
    """The rows that a batch leaves, by its keys: the new row, or None for a row that goes.

    With ``cleared``, the batch has removed all other rows.
    """

    rows: dict[Identity, Row | None] = field(default_factory=dict)
    sequences: dict[Identity, Any] = field(default_factory=dict)
    cleared: bool = False


def apply_to_current(
    events: Events, existing: dict[Identity, Row], sequences: dict[Identity, Any] | None
) -> CurrentRows:
    """Apply changes to rows by key.

    ``existing`` has the table's rows with the changes' keys, as far as they are needed. ``sequences`` has
    their values of `sequence_by`; a change with a lower one comes late and changes nothing. It is None if
    changes arrive in order. With sequences, a truncate needs all of the table's rows, because it keeps those
    with a higher one.
    """
    result = CurrentRows()
    before = dict(existing)
    latest = dict(sequences or {})
    for number, (kind, key) in enumerate(zip(events.kinds, events.keys, strict=True)):
        if kind == Kind.TRUNCATE:
            if sequences is None:
                result.rows.clear()
                before.clear()
                result.cleared = True
                continue
            at = events.sequences[number]
            for each in [each for each in before if each not in latest or latest[each] <= at]:
                result.rows[each] = None
                del before[each]
            continue
        assert key is not None, "only a truncate has no key"
        if sequences is not None:
            sequence = events.sequences[number]
            if key in latest and sequence < latest[key]:
                continue
            latest[key] = result.sequences[key] = sequence
        if kind == Kind.DELETE:
            result.rows[key] = None
            before.pop(key, None)
        else:
            found = before.get(key)
            if number in events.old_keys:
                old = events.old_keys[number]
                result.rows[old] = None
                found = before.pop(old, found)
            result.rows[key] = before[key] = events.row(number, found)
    return result
