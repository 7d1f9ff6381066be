"""Debezium's notifications about snapshots, and the channels that they are sent to."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.connect.data.records import SourceRecord
from penstock.connect.data.schema import INT64, STRING, Schema
from penstock.connect.data.struct import Struct
from penstock.connect.errors import ConfigInvalid

log = logging.getLogger(__name__)

INITIAL: Final = "Initial Snapshot"
INCREMENTAL: Final = "Incremental Snapshot"
CHANNELS: Final = frozenset({"sink", "log", "jmx"})

_KEY: Final = Schema.struct({"id": STRING}, name="io.debezium.connector.common.NotificationKey", version=1)
_VALUE: Final = Schema.struct(
    {
        "id": STRING,
        "type": STRING,
        "aggregate_type": STRING,
        "additional_data": Schema.map(STRING, STRING, optional=True),
        "timestamp": INT64,
    },
    name="io.debezium.connector.common.Notification",
    version=1,
)


@dataclass(frozen=True)
class NotificationSettings:
    """The enabled channels, and the topic of the channel `sink`."""

    channels: frozenset[str] = frozenset()
    topic: str = ""

    @staticmethod
    def of(properties: Mapping[str, str]) -> NotificationSettings:
        """Read Debezium's properties. Raises ConfigInvalid."""
        listed = properties.get("notification.enabled.channels", "").split(",")
        channels = frozenset(each.strip() for each in listed if each.strip())
        topic = properties.get("notification.sink.topic.name", "").strip()
        if unknown := channels - CHANNELS:
            raise ConfigInvalid(
                f"notification.enabled.channels has {', '.join(sorted(unknown))}; expected sink or log"
            )
        if "jmx" in channels:
            log.warning("notification channel jmx has no effect without Java")
        if "sink" in channels and not topic:
            raise ConfigInvalid(
                "notification.sink.topic.name is missing; the notification channel sink needs a topic"
            )
        return NotificationSettings(channels, topic)


class Notifier:
    """Makes notifications. ``emit`` gets the records of the channel `sink`, whose offset it has to set."""

    def __init__(
        self,
        settings: NotificationSettings,
        prefix: str,
        clock_ms: Callable[[], int],
        emit: Callable[[SourceRecord], None],
    ) -> None:
        self._settings = settings
        self._prefix = prefix
        self._clock_ms = clock_ms
        self._emit = emit

    def initial(self, status: str, /, **more: str) -> None:
        """Tell about the snapshot before the stream, or a blocking one."""
        self._send(str(uuid.uuid4()), INITIAL, status, more)

    def incremental(
        self,
        status: str,
        correlation_id: str | None,
        collections: Sequence[str] | None = None,
        /,
        **more: str,
    ) -> None:
        """Tell about an incremental snapshot; ``collections`` are the tables that are left."""
        if collections is not None:
            more = {"data_collections": ",".join(collections), **more}
        self._send(correlation_id or str(uuid.uuid4()), INCREMENTAL, status, more)

    def _send(self, id_: str, aggregate: str, status: str, more: Mapping[str, str]) -> None:
        if not self._settings.channels:
            return
        data = {**more, "connector_name": self._prefix}
        values: list[Any] = [id_, status, aggregate, data, self._clock_ms()]
        if "log" in self._settings.channels:
            log.info("notification id=%s type=%s aggregate_type=%s data=%s timestamp=%s", *values)
        if "sink" in self._settings.channels:
            self._emit(
                SourceRecord(
                    topic=self._settings.topic,
                    key=Struct(_KEY, {"id": id_}),
                    key_schema=_KEY,
                    value=Struct.of_values(_VALUE, values),
                    value_schema=_VALUE,
                )
            )
