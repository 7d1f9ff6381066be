"""A server without brokers for ksqlDB's tests of queries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from penstock.sql.catalog import DataSource
from penstock.sql.engine.changing.applying import Applier, Written
from penstock.sql.engine.changing.preparation import prepare
from penstock.sql.engine.ground.cluster_topics import TopicShape
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.errors import EngineError
from penstock.sql.engine.ground.persistent_queries import PersistentQuery
from penstock.sql.engine.ground.properties import checked_override
from penstock.sql.engine.ground.query_settings import values_of
from penstock.sql.engine.ground.registry_clients import required_registry
from penstock.sql.engine.ground.requests import Step, steps_of
from penstock.sql.engine.ground.state import State
from penstock.sql.formats import register_schemas
from penstock.sql.formats.registry_schemas import REGISTRY_FORMATS
from small_registry import SmallRegistry

_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TOPIC = re.compile(r"(?i)kafka_topic\s*=\s*'([^']+)'")
_PARTITIONS_SAID = re.compile(r"(?i)partitions\s*=\s*(\d+)")
_AS_SELECT = re.compile(r"(?is)\bas\s+select\b")
_PARTITIONS = 4
"""The partitions of a topic for which a case gives no number."""


@dataclass(frozen=True)
class Case:
    """One case: ``content`` is its object in a file, ``format`` one of the formats that it is run with."""

    name: str
    format: str
    content: Mapping[str, Any]

    def text(self, written: str) -> str:
        return written.replace("{FORMAT}", self.format)

    @property
    def statements(self) -> list[str]:
        return [self.text(each) for each in self.content["statements"]]

    @property
    def asks_a_registry(self) -> bool:
        said = f"{self.format} {json.dumps(self.content, default=str)}".upper()
        return any(each in said for each in REGISTRY_FORMATS)


def cases_in(directory: Path, words: Sequence[str]) -> Iterator[Case]:
    for path in sorted(directory.glob("*.json")):
        text = _COMMENTS.sub(lambda found: found[1] or "", path.read_text())
        for each in json.loads(text, parse_float=Decimal)["tests"]:
            for format_ in each.get("format", [""]):
                name = f"{path.stem}: {each['name']}{f' - {format_}' if format_ else ''}"
                if each.get("enabled", True) and (not words or any(word in name for word in words)):
                    yield Case(name, format_, each)


class Service:
    """A service that prepares, applies and registers statements as a server does; topics are a dictionary."""

    def __init__(self, case: Case, registry: SmallRegistry | None) -> None:
        self._case = case
        self._registry = registry
        self.registry_url = None if registry is None else registry.url
        self._config = EngineConfig("nowhere:9092", registry_url=self.registry_url)
        self._applier = Applier(self._config)
        self._overrides = _overrides(case)
        self._topics: dict[str, TopicShape] = {}
        self._described: dict[str, Mapping[str, Any]] = {}
        self.state = State()
        self._commands = 0
        self._make_topics()

    def _make_topics(self) -> None:
        """Create the topics that exist before any statement."""
        for statement in self._case.statements:
            topic = _TOPIC.search(statement)
            if topic is not None and not _AS_SELECT.search(statement):
                said = _PARTITIONS_SAID.search(statement)
                count = _PARTITIONS if said is None else int(said[1])
                self._topics.setdefault(topic[1], TopicShape(topic[1], count, 1))
        for each in self._case.content.get("topics", []):
            described = {"name": each} if isinstance(each, str) else each
            name = self._case.text(described["name"])
            self._described[name] = described
            if "partitions" in described or name not in self._topics:
                count = described.get("partitions", _PARTITIONS)
                self._topics[name] = TopicShape(name, count, described.get("replicas", 1))

    def shape(self, name: str) -> TopicShape | None:
        return self._topics.get(name)

    def run(self, statement: str) -> None:
        self._register_named(statement)
        for step in steps_of(statement, dict(self._overrides), {}, None):
            self._run(step)

    def _run(self, step: Step) -> None:
        values = values_of(self._config, self.state, step.overrides)
        prepared = prepare(step, self.state, values, self)
        written = Written(prepared.statement, step.script, step.start)
        applied = self._applier.apply(self.state, prepared.command, self._commands, written)
        self._commands += 1
        if prepared.topic is not None:
            self._topics[prepared.topic.name] = prepared.topic
        if prepared.registers is not None:
            source = applied.state.catalog.sources[prepared.registers]
            if {source.key_format, source.value_format} & REGISTRY_FORMATS.keys():
                client = required_registry(values, "the format of a registry")
                register_schemas(source, client, is_result=source.name in applied.state.made_from)
        self.state = applied.state

    # Schemas that a case describes. Ids count from 1, so each is registered when a statement names its topic.

    def _register_named(self, statement: str) -> None:
        for name in list(self._described):
            if re.search(rf"(?i)\b{re.escape(name)}\b", statement):
                described = self._described.pop(name)
                for side in ("key", "value"):
                    if f"{side}Schema" in described:
                        self._register(f"{name}-{side}", described, side)

    def _register(self, subject: str, described: Mapping[str, Any], side: str) -> None:
        assert self._registry is not None, "the case names a format of a registry"
        schema, number = described[f"{side}Schema"], described.get(f"{side}SchemaId")
        said = self._case.text(described.get(f"{side}Format", described.get("format", self._case.format)))
        format_ = REGISTRY_FORMATS.get(said) or _format_of(schema)
        text = schema if format_ == "PROTOBUF" else json.dumps(schema, default=float)
        references = [
            {"name": each["name"], "subject": each["name"], "version": 1, "schema": each["schema"]}
            for each in described.get(f"{side}SchemaReferences", [])
        ]
        named = [{name: each[name] for name in ("name", "subject", "version")} for each in references]
        if number is None:
            self._registry.add(subject, text, format_, named)
        else:
            content = {"schema": text, "schemaType": format_, "references": named}
            self._registry.schemas[number] = content
            self._registry.subjects.setdefault(subject, []).append(number)
        for each in references:
            self._registry.add(each["subject"], each["schema"], format_)

    # The results of the statements

    def queries(self) -> list[PersistentQuery]:
        return [each for each in self.state.queries.values() if each.plan is not None]

    def read_as(self, topic: str) -> DataSource | None:
        return next((each for each in self.state.catalog.sources.values() if each.topic == topic), None)

    def written_as(self, topic: str) -> DataSource | None:
        return next((each.sink for each in self.queries() if each.sink.topic == topic), None)


def _overrides(case: Case) -> dict[str, str]:
    """A case's properties that are ksqlDB's own: others are internal or belong to Kafka Streams."""
    made = {"auto.offset.reset": "earliest"}
    for name, value in case.content.get("properties", {}).items():
        try:
            made.update(
                [checked_override(name, json.dumps(value) if isinstance(value, bool) else str(value))]
            )
        except EngineError:
            continue
    return made


def _format_of(schema: Any) -> str:
    if isinstance(schema, str) and "syntax" in schema:
        return "PROTOBUF"
    is_json = isinstance(schema, dict) and (
        schema.keys() & {"oneOf", "properties"} or schema["type"] in ("object", "integer", "number")
    )
    return "JSON" if is_json else "AVRO"
