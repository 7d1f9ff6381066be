"""Whether records say of which schema they are, where a topic asks for it (Confluent's schema validation).

    confluent.value.schema.validation=true      of a topic; also for keys
    confluent.value.subject.name.strategy=…     which subjects the schema may be registered under

A record begins with a zero byte and the schema's id. The id has to be one of the topic's subject, or of the
subject that this name is an alias of. With RecordNameStrategy any id that exists will do, with
TopicRecordNameStrategy one of a subject that begins with the topic's name. Null values pass without a check.
Nothing else of a record is read.
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
    """Whether a schema is there can't be told: the registry does not answer, or none is known."""


class SchemaIds(Protocol):
    """What a registry knows. Called in worker threads, and remembers."""

    def subjects_of(self, schema_id: int, *, fresh: bool = False) -> Collection[str]:
        """Those that the id is registered under, none where it is not known; ``fresh``: as of now. Raises
        NoSchemas.
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
    """What a topic's keys or its values have to be."""

    part: str
    strategy: Strategy

    def problem(self, topic: str, data: bytes | None, ids: SchemaIds) -> str | None:
        """What is wrong with a key or a value. Raises NoSchemas."""
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
        return f"the {self.part} is of schema {schema_id} of {found}, expected one of {self._wanted(topic)}"

    def _fits(self, topic: str, subjects: Collection[str]) -> bool:
        match self.strategy:
            case Strategy.TOPIC:
                return self._wanted(topic) in subjects
            case Strategy.TOPIC_RECORD:
                return any(subject.startswith(f"{topic}-") for subject in subjects)
            case Strategy.RECORD:
                return bool(subjects)

    def _fits_by_alias(self, topic: str, subjects: Collection[str], ids: SchemaIds, *, fresh: bool) -> bool:
        """A schema that is registered under an alias belongs to the subject that the alias stands for."""
        if not subjects or self.strategy is not Strategy.TOPIC:
            return False
        return ids.alias_of(self._wanted(topic), fresh=fresh) in subjects

    def _wanted(self, topic: str) -> str:
        return f"{topic}-{self.part}" if self.strategy is Strategy.TOPIC else f"{topic}-…"


def schema_rules(values: Mapping[str, ConfigValue]) -> tuple[SchemaRule, ...]:
    """Those that a topic's configuration asks for, by part."""
    found = []
    for part in ("key", "value"):
        if values[f"confluent.{part}.schema.validation"]:
            name = str(values[f"confluent.{part}.subject.name.strategy"])
            found.append(SchemaRule(part, Strategy(name.removeprefix(SUBJECT_STRATEGIES))))
    return tuple(found)


def refused(
    records: Iterable[Record], topic: str, rules: Collection[SchemaRule], ids: SchemaIds
) -> Iterator[tuple[int, str]]:
    """The records that break a rule, by their place in the batch. Raises NoSchemas."""
    asked = _AskedOnce(ids)
    for index, record in enumerate(records):
        for rule in rules:
            problem = rule.problem(topic, record.key if rule.part == "key" else record.value, asked)
            if problem is not None:
                yield index, problem
                break


class _AskedOnce:
    """What was asked anew for a batch serves for all of it."""

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
    """The registry of a node that was told of none."""

    def subjects_of(self, schema_id: int, *, fresh: bool = False) -> Collection[str]:
        raise self._not_known()

    def alias_of(self, subject: str, *, fresh: bool = False) -> str | None:
        raise self._not_known()

    def _not_known(self) -> NoSchemas:
        return NoSchemas(
            "confluent.schema.registry.url is not set at this broker, which a topic with "
            "confluent.key.schema.validation or confluent.value.schema.validation needs"
        )
