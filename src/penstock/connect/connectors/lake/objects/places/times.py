"""The time of a record, by which folders are chosen and files end (Confluent's TimestampExtractor)."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any, Final

from penstock.connect.connectors.lake.columns.fields import field_of
from penstock.connect.data.logical import epoch_millis
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConfigInvalid, DataError

Extract = Callable[[SinkRecord], int]
"""Returns the time of a record, in milliseconds since 1970. Raises DataError if it has none."""

EXTRACTORS: Final = ("Wallclock", "Record", "RecordField")


def extractor(name: str, field: str) -> Extract:
    """Return the extractor of a name. Raises ConfigInvalid."""
    match name:
        case "Wallclock":
            return lambda _record: time.time_ns() // 1_000_000
        case "Record":
            return time_of_record
        case "RecordField":
            return lambda record: time_of_value(field_of(record.value, field), field)
    raise ConfigInvalid(f"timestamp.extractor is {name!r}: expected {', '.join(EXTRACTORS)}")


def time_of_record(record: SinkRecord) -> int:
    """Return the timestamp that the record has in its topic."""
    if record.timestamp_ms is None:
        raise DataError("the record has no timestamp, which timestamp.extractor=Record needs")
    return record.timestamp_ms


def time_of_value(value: Any, field: str) -> int:
    """Return milliseconds since 1970 from a number of them, a moment, a day, or a text in ISO 8601."""
    try:
        if isinstance(value, str):
            value = datetime.datetime.fromisoformat(value)
            if value.tzinfo is None:
                value = value.replace(tzinfo=datetime.UTC)
    except ValueError as error:
        raise DataError(f"the field {field!r} is {value!r}, expected a time in ISO 8601") from error
    if isinstance(value, datetime.datetime):
        return epoch_millis(value)
    if isinstance(value, datetime.date):
        return epoch_millis(datetime.datetime.combine(value, datetime.time(), datetime.UTC))
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise DataError(
        f"the field {field!r} is {value!r}, expected a time: a number of ms, a timestamp or a text"
    )
