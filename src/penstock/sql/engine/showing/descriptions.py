"""Build the descriptions of sources, queries, functions and types that entities contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import CommittedOffset
from penstock.sql.analysis.plan import Plan
from penstock.sql.catalog import Column, DataSource, Role
from penstock.sql.engine.ground.cluster_topics import Topics, TopicShape
from penstock.sql.engine.ground.entities import (
    ArgumentInfo,
    FieldInfo,
    FunctionDescription,
    FunctionInfo,
    PartitionOffsets,
    QueryDescription,
    QueryError,
    QueryOffsets,
    RunningQuery,
    SchemaInfo,
    SourceDescription,
    SourceInfo,
    TaskMetadata,
    TopicOffset,
    TopicOffsets,
    TopicPartitionEntity,
)
from penstock.sql.engine.ground.persistent_queries import PersistentQuery
from penstock.sql.engine.ground.state import State
from penstock.sql.engine.running.host import QueryState, QueryStatus
from penstock.sql.functions import Function
from penstock.sql.language.types import Array, Decimal, Map, SqlType, Struct
from penstock.topology.plans.description import describe as topology_text

_FIELD_TYPES = {Role.KEY: "KEY", Role.HEADERS: "HEADER"}


def schema_info(type_: SqlType) -> SchemaInfo:
    match type_:
        case Decimal(precision, scale):
            return SchemaInfo("DECIMAL", parameters={"precision": precision, "scale": scale})
        case Array(element):
            return SchemaInfo("ARRAY", member_schema=schema_info(element))
        case Map(_, value):
            return SchemaInfo("MAP", member_schema=schema_info(value))
        case Struct(fields):
            return SchemaInfo("STRUCT", tuple(FieldInfo(name, schema_info(each)) for name, each in fields))
    return SchemaInfo(str(type_))


def field_infos(columns: Iterable[Column]) -> tuple[FieldInfo, ...]:
    return tuple(
        FieldInfo(each.name, schema_info(each.type), _FIELD_TYPES.get(each.role), each.header)
        for each in columns
    )


def source_info(source: DataSource) -> SourceInfo:
    return SourceInfo(
        source.kind.value,
        source.name,
        source.topic,
        source.key_format,
        source.value_format,
        source.window is not None,
    )


def running_query(query: PersistentQuery, state: QueryState) -> RunningQuery:
    shown = shown_status(state)
    sinks = (query.sink.name,) if query.runs_on_host else ()
    topics = (query.sink.topic,) if query.runs_on_host else ()
    return RunningQuery(query.text, sinks, topics, query.id, {shown: 1}, "PERSISTENT", shown)


def shown_status(state: QueryState) -> str:
    """The status as ksqlDB shows it: a query that is about to start counts as running."""
    return "RUNNING" if state.status is QueryStatus.STARTING else state.status.value


def source_description(
    source: DataSource,
    state: State,
    states: Mapping[str, QueryState],
    shape: TopicShape | None,
    *,
    extended: bool,
    offsets: tuple[QueryOffsets, ...] = (),
    statistics: tuple[str, str] = ("", ""),
) -> SourceDescription:
    """Describe a source. ``statistics`` are two lines: what queries read and write, and what failed."""

    def shown(queries: list[PersistentQuery]) -> tuple[RunningQuery, ...]:
        return tuple(running_query(each, states[each.id]) for each in queries)

    constraints = sorted(name for name, made in state.made_from.items() if source.name in made)
    return SourceDescription(
        source.name,
        None if source.window is None else source.window.kind.value,
        shown([each for each in state.readers(source.name) if each.runs_on_host]),
        shown(state.writers(source.name)),
        field_infos(source.columns),
        source.kind.value,
        source.timestamp or "",
        *statistics,
        extended,
        source.key_format,
        source.value_format,
        source.topic,
        0 if shape is None or not extended else shape.partitions,
        0 if shape is None or not extended else shape.replication,
        state.texts.get(source.name, ""),
        offsets,
        tuple(constraints),
    )


def query_description(
    query: PersistentQuery, state: QueryState, host: str, offsets: QueryOffsets | None
) -> QueryDescription:
    """Describe a persistent query. ``offsets`` are those of its group, or None if they are not known."""
    errors = tuple(QueryError(each.at_ms, each.message, each.blame.value) for each in state.failures)
    application = query.planned.app.name
    return QueryDescription(
        query.id,
        query.text,
        None if query.sink.window is None else query.sink.window.kind.value,
        field_infos(query.sink.columns),
        query.sources,
        (query.sink.name,) if query.runs_on_host else (),
        topology_text(query.planned.app.topology()),
        "" if query.plan is None else str(query.plan),
        dict(query.properties),
        {host: shown_status(state)},
        "PERSISTENT",
        errors,
        () if offsets is None else _tasks(query, offsets),
        application,
        shown_status(state),
    )


def plan_description(
    text: str,
    plan: Plan,
    sources: Iterable[str],
    sinks: Iterable[str],
    topology: str,
    overrides: Mapping[str, str],
) -> QueryDescription:
    """Describe a statement that does not run, for EXPLAIN."""
    return QueryDescription(
        "",
        text,
        None,
        field_infos(plan.root.schema),
        tuple(sources),
        tuple(sinks),
        topology,
        str(plan),
        dict(overrides),
        {},
        plan.kind.name,
        (),
        (),
        "",
        None,
    )


def function_description(text: str, function: Function) -> FunctionDescription:
    made = tuple(
        FunctionInfo(
            tuple(ArgumentInfo("", str(each.shape), "", each.variadic) for each in signature.parameters),
            str(signature.result),
            function.description,
        )
        for signature in function.signatures
    )
    return FunctionDescription(
        statement_text=text,
        name=function.name,
        description=function.description,
        author="",
        version="",
        path=function.file or "internal",
        functions=made,
        type=function.kind.name,
    )


def query_offsets(query: PersistentQuery, topics: Topics) -> QueryOffsets:
    """The committed offsets of a query's group in each topic that it reads.

    Repartition topics may not exist: on Spark a shuffle usually takes their place.
    """
    group_id = query.planned.app.name
    committed = topics.committed(group_id)
    read = dict.fromkeys(query.planned.app.topology().source_topics())
    offsets = (_topic_offsets(topic, committed, topics) for topic in read)
    return QueryOffsets(group_id, tuple(each for each in offsets if each.offsets))


def _tasks(query: PersistentQuery, offsets: QueryOffsets) -> tuple[TaskMetadata, ...]:
    """Tasks as Kafka Streams would number them: one for each sub-topology and partition."""
    parts = query.planned.app.topology().source_topics()
    found: dict[tuple[int, int], list[TopicOffset]] = {}
    for summary in offsets.topic_summaries:
        part, topic = parts[summary.kafka_topic].id, summary.kafka_topic
        for each in summary.offsets:
            read = TopicPartitionEntity(topic, each.partition)
            offset = TopicOffset(read, each.log_end_offset, each.consumer_offset)
            found.setdefault((part, each.partition), []).append(offset)
    return tuple(
        TaskMetadata(f"{part}_{partition}", tuple(found[part, partition]))
        for part, partition in sorted(found)
    )


def _topic_offsets(
    topic: str, committed: Mapping[TopicPartition, CommittedOffset], topics: Topics
) -> TopicOffsets:
    made = []
    for partition, (first, last) in sorted(topics.bounds(topic).items()):
        found = committed.get(TopicPartition(topic, partition))
        made.append(PartitionOffsets(partition, first, last, 0 if found is None else found.offset))
    return TopicOffsets(topic, tuple(made))
