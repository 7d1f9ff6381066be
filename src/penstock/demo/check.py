"""Compare the results that an ordinary consumer reads from their topics with the independent results.

Equal means the same keys, and the same value in every field.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.demo.log import LogRecord

if TYPE_CHECKING:
    import pandas as pd

DIFFERENCES_SHOWN_MAX = 20


@dataclass(slots=True)
class Comparison:
    """The differences between a result topic and the expected result; none if they are equal."""

    topic: str
    rows: int
    differences: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not self.differences


def table_of(log: Sequence[LogRecord]) -> pd.DataFrame:
    """The contents of a table's topic: the last value of each key, without deleted keys."""
    rows: dict[str, bytes] = {}
    for record in log:
        if record.value is None:
            rows.pop(record.key.decode(), None)
        else:
            rows[record.key.decode()] = record.value
    return _frame(list(rows), list(rows.values()))


def hours_of(log: Sequence[LogRecord]) -> pd.DataFrame:
    """Every record of the topic of final hours, by ``AIRLINE HOUR``; a record sent twice appears twice."""
    values = [json.loads(record.value or b"{}") for record in log]
    keys = [
        f"{record.key.decode()} {value.pop('hour_ms')}" for record, value in zip(log, values, strict=True)
    ]
    return _frame(keys, [json.dumps(value).encode() for value in values])


def _frame(keys: list[str], values: list[bytes]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame.from_records(json.loads(b"[" + b",".join(values) + b"]"))
    frame.index = pd.Index(keys, dtype=object)
    return frame


def compare(topic: str, found: pd.DataFrame, expected: pd.DataFrame) -> Comparison:
    """Compare a result with the expected result, both indexed by key.

    A duplicate key is a difference, and so is a field that only one of them has.
    """
    comparison = Comparison(topic, rows=len(found))
    differences = comparison.differences
    differences += [f"{key}: more than once" for key in found.index[found.index.duplicated()]]
    differences += [f"{key}: not expected" for key in found.index.difference(expected.index)]
    differences += [f"{key}: missing" for key in expected.index.difference(found.index)]
    if not len(found) or not len(expected):
        return comparison
    differences += [f"field {name}: not expected" for name in found.columns.difference(expected.columns)]
    differences += [f"field {name}: missing" for name in expected.columns.difference(found.columns)]
    keys = found.index[~found.index.duplicated()].intersection(expected.index)
    once = found[~found.index.duplicated()]
    for name in found.columns.intersection(expected.columns):
        ours, theirs = once.loc[keys, name].astype(object), expected.loc[keys, name].astype(object)
        unequal = ~((ours == theirs) | (ours.isna() & theirs.isna()))
        differences += [f"{key}: {name} is {ours[key]}, expected {theirs[key]}" for key in keys[unequal]]
    return comparison
