"""RegexRouter and TimestampRouter: transforms of the topic of records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.errors import DataError
from penstock.connect.transforms.regular_expressions import TOPICS_MAX, VALID_REGEX, matches
from penstock.connect.transforms.transform import R, Transform
from penstock.java.dates import SimpleDateFormat
from penstock.java.patterns import compile_pattern
from penstock.java.replacements import replaced


class RegexRouter(Transform):
    """Renames the topic of records whose topic matches a regular expression of Java as a whole."""

    definition = (
        ConfigDef()
        .define(
            "regex",
            ConfigType.STRING,
            validator=VALID_REGEX,
            importance=Importance.HIGH,
            doc="A regular expression, in Java's syntax, for the whole name of the topic.",
        )
        .define(
            "replacement",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="The new name, in which <code>$1</code> or <code>${name}</code> is a group.",
        )
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._pattern = compile_pattern(config["regex"])
        self._replacement: str = config["replacement"]
        self._renamed = lru_cache(TOPICS_MAX)(self._rename)

    def apply(self, record: R) -> R | None:
        topic = self._renamed(record.topic)
        return record if topic == record.topic else record.with_topic(topic)

    def _rename(self, topic: str) -> str:
        if not matches(self._pattern, topic):
            return topic
        # Kafka replaces the first match in the name, which may be shorter than the name.
        found = self._pattern.search(topic)
        assert found is not None, "a pattern that matches the whole text matches in the text"
        try:
            renamed = replaced(found, self._replacement)
        except ValueError as error:
            raise DataError(str(error)) from None
        return topic[: found.start()] + renamed + topic[found.end() :]


class TimestampRouter(Transform):
    """Adds the timestamp of a record to its topic."""

    definition = (
        ConfigDef()
        .define(
            "topic.format",
            ConfigType.STRING,
            "${topic}-${timestamp}",
            importance=Importance.HIGH,
            doc="The new name, in which <code>${topic}</code> and <code>${timestamp}</code> are replaced.",
        )
        .define(
            "timestamp.format",
            ConfigType.STRING,
            "yyyyMMdd",
            importance=Importance.HIGH,
            doc="The pattern of the timestamp, for Java's <code>SimpleDateFormat</code>.",
        )
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._topic_format: str = config["topic.format"]
        self._pattern: str = config["timestamp.format"]
        self._date_format: SimpleDateFormat | None = None

    def apply(self, record: R) -> R | None:
        if record.timestamp_ms is None:
            place = f"topic {record.topic}, partition {record.partition}"
            raise DataError(f"Timestamp missing on record: {place}")
        if self._date_format is None:
            # As in Kafka, a pattern that is not valid fails with the first record.
            try:
                self._date_format = SimpleDateFormat(self._pattern)
            except ValueError as error:
                raise DataError(str(error)) from None
        topic = self._topic_format.replace("${topic}", record.topic)
        timestamp = self._date_format.format(record.timestamp_ms)
        return record.with_topic(topic.replace("${timestamp}", timestamp))
