"""The predicates that Kafka Connect ships, and the transform Filter, which drops what they select."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from penstock.connect.data.records import ConnectRecord
from penstock.connect.definitions.config_def import ConfigDef, ConfigType
from penstock.connect.definitions.validators import CompositeValidator, NonEmptyString
from penstock.connect.transforms.regular_expressions import TOPICS_MAX, VALID_REGEX, matches
from penstock.connect.transforms.transform import Predicate, R, Transform
from penstock.java.patterns import compile_pattern


class Filter(Transform):
    """Drops all records. A predicate limits it to those that a connector shall not have."""

    def apply(self, record: R) -> R | None:
        return None


class TopicNameMatches(Predicate):
    """Selects records whose topic's name matches a regular expression of Java as a whole."""

    definition = ConfigDef().define(
        "pattern",
        ConfigType.STRING,
        validator=CompositeValidator(NonEmptyString(), VALID_REGEX),
        doc="A regular expression, in Java's syntax, for the whole name of the topic.",
    )

    def start(self, config: Mapping[str, Any]) -> None:
        pattern = compile_pattern(config["pattern"])
        self._matches = lru_cache(TOPICS_MAX)(lambda topic: matches(pattern, topic))

    def test(self, record: ConnectRecord) -> bool:
        return self._matches(record.topic)


class HasHeaderKey(Predicate):
    """Selects records that have a header of one name."""

    definition = ConfigDef().define(
        "name", ConfigType.STRING, validator=NonEmptyString(), doc="The name of the header."
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._name: str = config["name"]

    def test(self, record: ConnectRecord) -> bool:
        return any(header.key == self._name for header in record.headers)


class RecordIsTombstone(Predicate):
    """Selects records without a value."""

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None
