"""Partitioners: the folder of a record's file below that of its topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from penstock.connect.connectors.lake.columns.fields import field_of
from penstock.connect.connectors.lake.objects.places.path_format import PathFormat
from penstock.connect.connectors.lake.objects.places.times import Extract
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConfigInvalid, DataError

Folder = Callable[[SinkRecord], str]
"""Returns a record's folder. Raises DataError if the record lacks what decides about it."""

DEFAULT: Final = "DefaultPartitioner"
FIELD: Final = "FieldPartitioner"
TIME: Final = "TimeBasedPartitioner"
DAILY: Final = "DailyPartitioner"
HOURLY: Final = "HourlyPartitioner"
PARTITIONERS: Final = (DEFAULT, FIELD, TIME, DAILY, HOURLY)
_DAY: Final = "'year'=YYYY/'month'=MM/'day'=dd"
_HOUR_MS: Final = 3_600_000
_PLAIN: Final = "".join(map(chr, range(0x20, 0x7F))).translate(
    {ord(each): None for each in '/\\%?#"*<>|`^{}~'}
)
"""The characters of values that stay as they are in folders; others are percent-encoded."""


def partitioner(name: str, config: Mapping[str, Any], extract: Extract) -> Folder:
    """Return the partitioner of a class name. Raises ConfigInvalid for a setting that it needs."""
    match name:
        case "DefaultPartitioner":
            return lambda record: f"partition={record.original_partition}"
        case "FieldPartitioner":
            fields: list[str] = config["partition.field.name"]
            if not fields:
                raise ConfigInvalid("partition.field.name is empty: FieldPartitioner needs a field")
            return lambda record: fields_folder(record, fields)
        case "TimeBasedPartitioner":
            pattern, duration_ms = config["path.format"], config["partition.duration.ms"]
            if not pattern or duration_ms <= 0:
                raise ConfigInvalid("TimeBasedPartitioner needs path.format and partition.duration.ms > 0")
        case "DailyPartitioner":
            pattern, duration_ms = _DAY, 24 * _HOUR_MS
        case "HourlyPartitioner":
            pattern, duration_ms = f"{_DAY}/'hour'=HH", _HOUR_MS
        case _:
            raise ConfigInvalid(f"partitioner.class is {name!r}: expected {', '.join(PARTITIONERS)}")
    times = PathFormat(pattern, config["timezone"], duration_ms)
    return lambda record: times.folder(extract(record))


def fields_folder(record: SinkRecord, fields: Sequence[str]) -> str:
    """Return a folder for each field, in the form name=value."""
    parts = []
    for name in fields:
        value = field_of(record.value, name)
        if not isinstance(value, str | int):
            raise DataError(
                f"the field {name!r}, which decides about the folder, is {value!r}: expected a text, a "
                "whole number or a boolean"
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            parts.append(f"{name}={quote(text, safe=_PLAIN)}")
        except UnicodeEncodeError as error:
            raise DataError(
                f"the field {name!r}, which decides about the folder, is no text: {error}"
            ) from error
    return "/".join(parts)
