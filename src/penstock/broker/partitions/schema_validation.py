"""Check the schema ids of records, for topics that require it (Confluent's schema validation).

    confluent.value.schema.validation=true      for a topic's values; there is also one for keys
    confluent.value.subject.name.strategy=…     which subjects the schema may be registered under

A record must begin with a zero byte and the schema's id. The id must be registered under the topic's subject,
or under the subject of which this name is an alias. With RecordNameStrategy any existing id is valid, with
TopicRecordNameStrategy any id under a subject that begins with the topic's name. Null keys and values need no
schema. Nothing else of a record is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from penstock.metadata.configs import ConfigValue
from penstock.metadata.configs.rules import SUBJECT_STRATEGIES
from penstock.protocol.records import Record

MAGIC: Final = 0
_PREFIX_BYTES: Final = 5


class NoSchemas(Exception):
    """The schemas can't be checked: the registry does not answer, or none is configured."""


class SchemaIds(Protocol):
    """The schema ids of a registry. Called in worker threads; answers are cached."""

    def subjects_of(self, schema_id: int, *, fresh: bool = False) -> Collection[str]:
        """Return the subjects under which the id is registered; none if the id is unknown.

        ``fresh`` bypasses the cache. Raises NoSchemas.
        """
        ...

    def alias_of(self, subject: str, *, fresh: bool = False) -> str | None:
        """Return the subject that this name is an alias of, or None. Raises NoSchemas."""
        ...


class Strategy(Enum):
    TOPIC = "TopicNameStrategy"
    RECORD = "RecordNameStrategy"
    TOPIC_RECORD = "TopicRecordNameStrategy"


@dataclass(frozen=True)
class SchemaRule:
    """The rule for a topic's keys or for its values."""

    part: str
    strategy: Strategy

    def problem(self, topic: str, data: bytes | None, ids: SchemaIds) -> str | None:
        """Return the reason why a key or value breaks the rule, or None. Raises NoSchemas."""
        if data is None:
            return None
        if len(data) < _PREFIX_BYTES or data[0] != MAGIC:
            found = data[:_PREFIX_BYTES].hex(" ") or "nothing"
            return f"the {self.part} begins with {found}, expected a zero byte and the id of a schema"
        schema_id = int.from_bytes(data[1:_PREFIX_BYTES])
        subjects: Collection[str] = ()
        for fresh in (False, True):
            subjects = ids.subjects_of(schema_id, fresh=fresh)
            if self._fits(topic, subjects) or self._fits_by_alias(topic, subjects, ids, fresh=fresh):
                return None
        if not subjects:
            return f"the {self.part} names the schema id {schema_id}, which the registry does not know"
        found = ", ".join(sorted(subjects))
        return f"the {self.part} has schema {schema_id} of {found}, expected one of {self._wanted(topic)}"

    def _fits(self, topic: str, subjects: Collection[str]) -> bool:
        match self.strategy:
            case Strategy.TOPIC:
                return self._wanted(topic) in subjects
            case Strategy.TOPIC_RECORD:
                return any(subject.startswith(f"{topic}-") for subject in subjects)
            case Strategy.RECORD:
                return bool(subjects)

    def _fits_by_alias(self, topic: str, subjects: Collection[str], ids: SchemaIds, *, fresh: bool) -> bool:
        """Whether the topic's subject is an alias of one of ``subjects``."""
        if not subjects or self.strategy is not Strategy.TOPIC:
            return False
        return ids.alias_of(self._wanted(topic), fresh=fresh) in subjects

    def _wanted(self, topic: str) -> str:
        return f"{topic}-{self.part}" if self.strategy is Strategy.TOPIC else f"{topic}-…"


def schema_rules(values: Mapping[str, ConfigValue]) -> tuple[SchemaRule, ...]:
    """Return the rules that a topic's configuration requires: at most one for keys and one for values."""
    found = []
    for part in ("key", "value"):
        if values[f"confluent.{part}.schema.validation"]:
            name = str(values[f"confluent.{part}.subject.name.strategy"])
            found.append(SchemaRule(part, Strategy(name.removeprefix(SUBJECT_STRATEGIES))))
    return tuple(found)


def refused(
    records: Iterable[Record], topic: str, rules: Collection[SchemaRule], ids: SchemaIds
) -> Iterator[tuple[int, str]]:
    """Yield each record that breaks a rule: its index in the batch and the reason. Raises NoSchemas."""
    asked = _AskedOnce(ids)
    for index, record in enumerate(records):
        for rule in rules:
            problem = rule.problem(topic, record.key if rule.part == "key" else record.value, asked)
            if problem is not None:
                yield index, problem
                break


class _AskedOnce:
    """The schema ids for one batch: each fresh answer of the registry is reused for the rest of the batch."""

    def __init__(self, ids: SchemaIds) -> None:
        self._ids = ids
        self._fresh: dict[int, Collection[str]] = {}
        self._aliases: dict[str, str | None] = {}

    def subjects_of(self, schema_id: int, *, fresh: bool = False) -> Collection[str]:
        found = self._fresh.get(schema_id)
        if found is None:
            found = self._ids.subjects_of(schema_id, fresh=fresh)
            if fresh:
                self._fresh[schema_id] = found
        return found

    def alias_of(self, subject: str, *, fresh: bool = False) -> str | None:
        if subject in self._aliases:
            return self._aliases[subject]
        found = self._ids.alias_of(subject, fresh=fresh)
        if fresh:
            self._aliases[subject] = found
        return found


class Unknown:
    """The `SchemaIds` of a node without a configured registry."""

    def subjects_of(self, schema_id: int, *, fresh: bool = False) -> Collection[str]:
        raise self._not_known()

    def alias_of(self, subject: str, *, fresh: bool = False) -> str | None:
        raise self._not_known()

    def _not_known(self) -> NoSchemas:
        return NoSchemas(
            "confluent.schema.registry.url is not set on this broker, but is required by topics with "
            "confluent.key.schema.validation or confluent.value.schema.validation"
        )
