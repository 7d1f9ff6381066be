"""SHOW and DESCRIBE: list and describe what a service has."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.client.errors import ClientError
from penstock.sql.catalog import DataSource
from penstock.sql.engine.connectors import Connectors
from penstock.sql.engine.ground.cluster_topics import Topics
from penstock.sql.engine.ground.entities import (
    Entity,
    FunctionName,
    FunctionNameList,
    PropertiesList,
    PropertyInfo,
    Queries,
    QueryDescription,
    QueryDescriptionList,
    RunningQuery,
    SourceDescription,
    SourceDescriptionEntity,
    SourceDescriptionList,
    StreamsList,
    TablesList,
    TopicInfo,
    TopicInfoExtended,
    TopicsList,
    TopicsListExtended,
    TypeList,
    VariableInfo,
    VariablesList,
)
from penstock.sql.engine.ground.persistent_queries import PersistentQuery
from penstock.sql.engine.ground.properties import Values
from penstock.sql.engine.ground.state import State
from penstock.sql.engine.running.host import QueryState
from penstock.sql.engine.running.runner import Runner
from penstock.sql.engine.showing.descriptions import (
    query_description,
    query_offsets,
    running_query,
    schema_info,
    source_description,
    source_info,
)
from penstock.sql.functions import FunctionKind
from penstock.sql.language import statements as s
from penstock.sql.language.statements import Listed, SourceKind

log = logging.getLogger(__name__)

_HIDDEN = ("_confluent", "__", "_schemas", "_connect-")
"""The prefixes of topics that only SHOW ALL TOPICS lists."""


@dataclass(frozen=True)
class Lister:
    """A view of a server at one moment. ``push_queries`` are those that clients read now."""

    state: State
    runner: Runner
    topics: Topics
    values: Values
    host: str
    push_queries: tuple[RunningQuery, ...] = ()

    @property
    def _states(self) -> Mapping[str, QueryState]:
        return self.runner.states(dict(self.state.queries))

    def show(self, show: s.Show, text: str, variables: Mapping[str, str]) -> Entity:
        match show.what:
            case Listed.STREAMS | Listed.TABLES:
                kind = SourceKind.STREAM if show.what is Listed.STREAMS else SourceKind.TABLE
                return self._sources(kind, text, show.extended)
            case Listed.TOPICS:
                return self._topics(show, text)
            case Listed.QUERIES:
                return self._queries(text, show.extended)
            case Listed.FUNCTIONS:
                return self._functions(text)
            case Listed.PROPERTIES:
                return self._properties(text)
            case Listed.TYPES:
                types = {name: schema_info(each) for name, each in sorted(self.state.catalog.types.items())}
                return TypeList(statement_text=text, types=types)
            case Listed.VARIABLES:
                shown = tuple(VariableInfo(name, value) for name, value in sorted(variables.items()))
                return VariablesList(statement_text=text, variables=shown)
        return Connectors(self.values).show(show.what, text)

    def _of_kind(self, kind: SourceKind) -> list[DataSource]:
        sources = self.state.catalog.sources
        return [sources[name] for name in sorted(sources) if sources[name].kind is kind]

    def _sources(self, kind: SourceKind, text: str, extended: bool) -> Entity:
        if extended:
            return self.describe_all(kind, text, extended=True)
        shown = tuple(map(source_info, self._of_kind(kind)))
        if kind is SourceKind.STREAM:
            return StreamsList(statement_text=text, streams=shown)
        return TablesList(statement_text=text, tables=shown)

    def describe_all(self, kind: SourceKind, text: str, *, extended: bool) -> Entity:
        states = self._states
        described = tuple(
            source_description(
                each,
                self.state,
                states,
                self.topics.shape(each.topic) if extended else None,
                extended=extended,
                statistics=self._statistics(each, extended),
            )
            for each in self._of_kind(kind)
        )
        return SourceDescriptionList(statement_text=text, source_descriptions=described)

    def describe_connector(self, name: str, text: str) -> Entity:
        states = self._states

        def sources_on(topics: Sequence[str]) -> Iterator[SourceDescription]:
            for source in self.state.catalog.sources.values():
                if source.topic in topics:
                    yield source_description(source, self.state, states, None, extended=False)

        return Connectors(self.values).describe(name, text, sources_on)

    def describe(self, source: DataSource, text: str, *, extended: bool) -> Entity:
        shape = self.topics.shape(source.topic) if extended else None
        writers = self.state.writers(source.name) if extended else []
        offsets = tuple(query_offsets(each, self.topics) for each in writers)
        return SourceDescriptionEntity(
            statement_text=text,
            source_description=source_description(
                source,
                self.state,
                self._states,
                shape,
                extended=extended,
                offsets=offsets,
                statistics=self._statistics(source, extended),
            ),
        )

    def _statistics(self, source: DataSource, extended: bool) -> tuple[str, str]:
        return self.runner.statistics(source.topic) if extended else ("", "")

    def _topics(self, show: s.Show, text: str) -> Entity:
        shown = [each for each in self.topics.all() if show.everything or not each.name.startswith(_HIDDEN)]
        if not show.extended:
            topics = tuple(TopicInfo(each.name, each.replicas) for each in shown)
            return TopicsList(statement_text=text, topics=topics)
        readers = self.topics.readers()
        extended = tuple(
            TopicInfoExtended(each.name, each.replicas, *readers.get(each.name, (0, 0))) for each in shown
        )
        return TopicsListExtended(statement_text=text, topics=extended)

    def _queries(self, text: str, extended: bool) -> Entity:
        states = self._states
        queries = self.state.queries
        if extended:
            described = tuple(self.describe_query(each, states[each.id]) for each in queries.values())
            return QueryDescriptionList(statement_text=text, query_descriptions=described)
        shown = tuple(running_query(each, states[each.id]) for each in queries.values())
        return Queries(statement_text=text, queries=(*shown, *self.push_queries))

    def describe_query(self, query: PersistentQuery, state: QueryState) -> QueryDescription:
        """Describe a query even if the brokers don't answer: that may be the fault the user looks for."""
        offsets = None
        if query.runs_on_host:
            try:
                offsets = query_offsets(query, self.topics)
            except ClientError as error:
                log.warning("cannot read the offsets of a query query=%s error=%s", query.id, error)
        return query_description(query, state, self.host, offsets)

    def _functions(self, text: str) -> Entity:
        names = self.state.catalog.functions
        shown = tuple(
            FunctionName(name, names[name].kind.name, _CATEGORIES.get(names[name].kind, "OTHER"))
            for name in sorted(names)
        )
        return FunctionNameList(statement_text=text, functions=shown)

    def _properties(self, text: str) -> Entity:
        listed = list(self.values.listed())
        *server, overrides = self.values.layers
        given = set().union(*server) if server else set()
        return PropertiesList(
            statement_text=text,
            properties=tuple(
                PropertyInfo(
                    each.name, "KSQL", value, each.is_mutable, "QUERY" if each.is_of_queries else "SERVER"
                )
                for each, value in listed
            ),
            overwritten_properties=tuple(sorted(overrides)),
            default_properties=tuple(
                each.name for each, _ in listed if each.name not in given and each.name not in overrides
            ),
        )


_CATEGORIES = {FunctionKind.AGGREGATE: "AGGREGATE", FunctionKind.TABLE: "TABLE"}
