"""Handles records that cannot be read: they fail the task, or go to a topic, or only to the log.

Kafka Connect has dead letters for sinks only. Sources that read files use the same names: with
`errors.tolerance=all`, the bytes of a bad record go to `errors.deadletterqueue.topic.name`. The record there
has the offset of the file, so it is stored exactly once with the others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from penstock.connect.connectors.formats.items import Item
from penstock.connect.data.records import Header, Offset, Partition, SourceRecord
from penstock.connect.data.schema import BYTES, STRING
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.errors import ConnectError

log = logging.getLogger(__name__)

DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
TOLERANCE: Final = "errors.tolerance"
_PREFIX: Final = "__connect.errors."


def define_bad_records(definition: ConfigDef) -> ConfigDef:
    """Add the key of the topic for bad records to a definition, and return it."""
    return definition.define(
        DEAD_LETTERS,
        ConfigType.STRING,
        "",
        None,
        Importance.MEDIUM,
        "The topic for records that cannot be read, if errors.tolerance is all. Without it they are only"
        " logged. If errors.tolerance is none, the first one fails the task.",
    )


class BadRecords:
    """Decides about bad records of one task."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._topic: str = config[DEAD_LETTERS]
        self.tolerates = str(config.get(TOLERANCE, "none")).lower() == "all"

    def record(self, file: str, item: Item, partition: Partition, offset: Offset) -> SourceRecord | None:
        """Return the dead letter for a bad record; None if it is only logged.

        Raises:
            ConnectError: no error is tolerated.
        """
        where = f"{file}, before position {item.position}"
        if not self.tolerates:
            raise ConnectError(f"Bad record in {where}: {item.error}") from item.error
        log.warning("bad record skipped file=%s position=%d error=%s", file, item.position, item.error)
        if not self._topic:
            return None
        try:
            value: str | bytes = item.raw.decode()
        except UnicodeDecodeError:
            value = item.raw
        details = {
            "file": file,
            "position": str(item.position),
            "exception.class.name": type(item.error).__name__,
            "exception.message": str(item.error),
        }
        return SourceRecord(
            topic=self._topic,
            value=value,
            value_schema=STRING if isinstance(value, str) else BYTES,
            headers=tuple(Header(f"{_PREFIX}{name}", text, STRING) for name, text in details.items()),
            source_partition=partition,
            source_offset=offset,
        )
