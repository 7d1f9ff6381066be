"""The entities that answer statements: one class for each of ksqlDB's entities, with the same content.

`to_json` returns the JSON of an entity or of a part of one. Fields have ksqlDB's names, but in snake case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, ClassVar, Final

_OMITTED: Final = {"omitted_if_empty": True}


# Parts of entities


@dataclass(frozen=True)
class SchemaInfo:
    """A type. ``fields`` belong to a STRUCT, ``member_schema`` to an ARRAY's elements or a MAP's values.

    ``parameters`` are the precision and scale of a DECIMAL.
    """

    type: str
    fields: tuple[FieldInfo, ...] | None = None
    member_schema: SchemaInfo | None = None
    parameters: Mapping[str, int] = field(default_factory=dict, metadata=_OMITTED)


@dataclass(frozen=True)
class FieldInfo:
    """A column or a field. ``field_type`` is KEY or HEADER, or None for a value."""

    name: str
    schema: SchemaInfo
    field_type: str | None = field(default=None, metadata={**_OMITTED, "name": "type"})
    header_key: str | None = field(default=None, metadata=_OMITTED)


@dataclass(frozen=True)
class CommandStatus:
    """The status of a command: QUEUED, PARSING, EXECUTING, RUNNING, TERMINATED, SUCCESS or ERROR."""

    status: str
    message: str
    query_id: str | None = None


@dataclass(frozen=True)
class SourceInfo:
    type: str
    name: str
    topic: str
    key_format: str
    value_format: str
    is_windowed: bool


@dataclass(frozen=True)
class TopicInfo:
    """A topic. ``replica_info`` has the number of replicas of each partition."""

    name: str
    replica_info: tuple[int, ...]


@dataclass(frozen=True)
class TopicInfoExtended(TopicInfo):
    consumer_count: int = 0
    consumer_group_count: int = 0


@dataclass(frozen=True)
class RunningQuery:
    """A query that runs. ``status_count`` has the number of servers on which it is in each state."""

    query_string: str
    sinks: tuple[str, ...]
    sink_kafka_topics: tuple[str, ...]
    id: str
    status_count: Mapping[str, int]
    query_type: str
    state: str


@dataclass(frozen=True)
class PartitionOffsets:
    partition: int
    log_start_offset: int
    log_end_offset: int
    consumer_offset: int


@dataclass(frozen=True)
class TopicOffsets:
    kafka_topic: str
    offsets: tuple[PartitionOffsets, ...]


@dataclass(frozen=True)
class QueryOffsets:
    """The offsets of a query's consumer group in the topics that it reads."""

    group_id: str
    topic_summaries: tuple[TopicOffsets, ...]


@dataclass(frozen=True)
class SourceDescription:
    name: str
    window_type: str | None
    read_queries: tuple[RunningQuery, ...]
    write_queries: tuple[RunningQuery, ...]
    fields: tuple[FieldInfo, ...]
    type: str
    timestamp: str
    statistics: str
    error_stats: str
    extended: bool
    key_format: str
    value_format: str
    topic: str
    partitions: int
    replication: int
    statement: str
    query_offset_summaries: tuple[QueryOffsets, ...] = ()
    source_constraints: tuple[str, ...] = ()
    cluster_statistics: tuple[object, ...] = ()
    cluster_error_stats: tuple[object, ...] = ()


@dataclass(frozen=True)
class TopicPartitionEntity:
    topic: str
    partition: int


@dataclass(frozen=True)
class TopicOffset:
    topic_partition_entity: TopicPartitionEntity
    end_offset: int
    committed_offset: int


@dataclass(frozen=True)
class TaskMetadata:
    """One task of a query, and its offsets in the partitions that it reads."""

    task_id: str
    topic_offsets: tuple[TopicOffset, ...]
    time_current_idling_started: int | None = None


@dataclass(frozen=True)
class QueryError:
    timestamp: int
    error_message: str
    type: str = "UNKNOWN"


@dataclass(frozen=True)
class QueryDescription:
    id: str
    statement_text: str
    window_type: str | None
    fields: tuple[FieldInfo, ...]
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    topology: str
    execution_plan: str
    overridden_properties: Mapping[str, str]
    ksql_host_query_status: Mapping[str, str]
    query_type: str
    query_errors: tuple[QueryError, ...]
    tasks_metadata: tuple[TaskMetadata, ...]
    consumer_group_id: str
    state: str | None


@dataclass(frozen=True)
class ArgumentInfo:
    name: str
    type: str
    description: str
    is_variadic: bool


@dataclass(frozen=True)
class FunctionInfo:
    arguments: tuple[ArgumentInfo, ...]
    return_type: str
    description: str


@dataclass(frozen=True)
class FunctionName:
    """A function in a list. ``type`` is SCALAR, TABLE or AGGREGATE."""

    name: str
    type: str
    category: str


@dataclass(frozen=True)
class PropertyInfo:
    """A property. ``level`` is QUERY if a query may have its own value, else SERVER."""

    name: str
    scope: str
    value: str
    editable: bool
    level: str


@dataclass(frozen=True)
class VariableInfo:
    name: str
    value: str


# Entities


@dataclass(frozen=True, kw_only=True)
class Entity:
    """The answer to one statement. ``type_name`` is its ``@type`` in JSON."""

    type_name: ClassVar[str]
    statement_text: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CommandStatusEntity(Entity):
    """The answer to a statement that was written to the command topic, at ``command_sequence_number``."""

    type_name = "currentStatus"
    command_id: str
    command_status: CommandStatus
    command_sequence_number: int


@dataclass(frozen=True, kw_only=True)
class WarningEntity(Entity):
    """The answer to a statement that changed nothing, as IF NOT EXISTS allows."""

    type_name = "warning_entity"
    message: str


@dataclass(frozen=True, kw_only=True)
class TerminateQueryEntity(Entity):
    type_name = "terminate_query"
    query_id: str
    was_terminated: bool


@dataclass(frozen=True, kw_only=True)
class StreamsList(Entity):
    type_name = "streams"
    streams: tuple[SourceInfo, ...]


@dataclass(frozen=True, kw_only=True)
class TablesList(Entity):
    type_name = "tables"
    tables: tuple[SourceInfo, ...]


@dataclass(frozen=True, kw_only=True)
class TopicsList(Entity):
    type_name = "kafka_topics"
    topics: tuple[TopicInfo, ...]


@dataclass(frozen=True, kw_only=True)
class TopicsListExtended(Entity):
    type_name = "kafka_topics_extended"
    topics: tuple[TopicInfoExtended, ...]


@dataclass(frozen=True, kw_only=True)
class Queries(Entity):
    type_name = "queries"
    queries: tuple[RunningQuery, ...]


@dataclass(frozen=True, kw_only=True)
class SourceDescriptionEntity(Entity):
    type_name = "sourceDescription"
    source_description: SourceDescription


@dataclass(frozen=True, kw_only=True)
class SourceDescriptionList(Entity):
    type_name = "source_descriptions"
    source_descriptions: tuple[SourceDescription, ...]


@dataclass(frozen=True, kw_only=True)
class QueryDescriptionEntity(Entity):
    type_name = "queryDescription"
    query_description: QueryDescription


@dataclass(frozen=True, kw_only=True)
class QueryDescriptionList(Entity):
    type_name = "query_descriptions"
    query_descriptions: tuple[QueryDescription, ...]


@dataclass(frozen=True, kw_only=True)
class FunctionNameList(Entity):
    type_name = "function_names"
    functions: tuple[FunctionName, ...]


@dataclass(frozen=True, kw_only=True)
class FunctionDescription(Entity):
    type_name = "describe_function"
    name: str
    description: str
    author: str
    version: str
    path: str
    functions: tuple[FunctionInfo, ...]
    type: str


@dataclass(frozen=True, kw_only=True)
class PropertiesList(Entity):
    type_name = "properties"
    properties: tuple[PropertyInfo, ...]
    overwritten_properties: tuple[str, ...]
    default_properties: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TypeList(Entity):
    type_name = "type_list"
    types: Mapping[str, SchemaInfo]


@dataclass(frozen=True, kw_only=True)
class VariablesList(Entity):
    type_name = "variables"
    variables: tuple[VariableInfo, ...]


@dataclass(frozen=True, kw_only=True)
class AssertTopicEntity(Entity):
    type_name = "assert_topic"
    topic_name: str
    exists: bool


@dataclass(frozen=True, kw_only=True)
class AssertSchemaEntity(Entity):
    type_name = "assert_schema"
    subject: str | None
    id: int | None
    exists: bool


@dataclass(frozen=True, kw_only=True)
class CreateConnectorEntity(Entity):
    """The answer of Connect to a new connector: its name, config, tasks and type."""

    type_name = "connector_info"
    info: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class DropConnectorEntity(Entity):
    type_name = "drop_connector"
    connector_name: str


@dataclass(frozen=True)
class SimpleConnectorInfo:
    """A connector in a list. What its workers did not tell is left out."""

    name: str
    type: str | None = field(default=None, metadata=_OMITTED)
    class_name: str | None = field(default=None, metadata=_OMITTED)
    state: str | None = field(default=None, metadata=_OMITTED)


@dataclass(frozen=True, kw_only=True)
class ConnectorList(Entity):
    type_name = "connector_list"
    connectors: tuple[SimpleConnectorInfo, ...]


@dataclass(frozen=True)
class ConnectorPluginInfo:
    class_name: str
    type: str | None = field(default=None, metadata=_OMITTED)
    version: str | None = field(default=None, metadata=_OMITTED)


@dataclass(frozen=True, kw_only=True)
class ConnectorPluginsList(Entity):
    type_name = "connector_plugins_list"
    connectors_plugins: tuple[ConnectorPluginInfo, ...]


@dataclass(frozen=True, kw_only=True)
class ConnectorDescription(Entity):
    """A connector: its status as Connect tells it, its topics, and the streams and tables on these."""

    type_name = "connector_description"
    connector_class: str
    status: Mapping[str, Any]
    sources: tuple[SourceDescription, ...]
    topics: tuple[str, ...]


# The status of a server


@dataclass(frozen=True)
class ServerInfo:
    version: str
    kafka_cluster_id: str
    ksql_service_id: str
    server_status: str


@dataclass(frozen=True)
class LagInfo:
    current_offset_position: int
    end_offset_position: int
    offset_lag: int


@dataclass(frozen=True)
class StateStoreLags:
    lag_by_partition: Mapping[int, LagInfo]


@dataclass(frozen=True)
class HostStoreLags:
    """The lags of a server's stores. Each key consists of a query's id, a # and the name of its store."""

    state_store_lags: Mapping[str, StateStoreLags]
    update_time_ms: int


@dataclass(frozen=True)
class TopicPartitionInfo:
    topic: str
    partition: int


@dataclass(frozen=True)
class ActiveStandby:
    active_stores: tuple[str, ...]
    active_partitions: tuple[TopicPartitionInfo, ...]
    stand_by_stores: tuple[str, ...] = ()
    stand_by_partitions: tuple[TopicPartitionInfo, ...] = ()


@dataclass(frozen=True)
class HostStatus:
    host_alive: bool
    last_status_update_ms: int
    active_standby_per_query: Mapping[str, ActiveStandby]
    host_store_lags: HostStoreLags


@dataclass(frozen=True)
class HealthDetail:
    is_healthy: bool


@dataclass(frozen=True)
class HealthCheck:
    is_healthy: bool
    details: Mapping[str, HealthDetail]
    server_state: str | None = None


# JSON


def to_json(value: Any) -> Any:
    """The JSON of an entity or a part of one, as dicts, lists and plain values."""
    if isinstance(value, Entity):
        made = {"@type": value.type_name, "statementText": value.statement_text, **_fields(value)}
        return {**made, "warnings": [{"message": message} for message in value.warnings]}
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(name): to_json(each) for name, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(each) for each in value]
    return value.value if isinstance(value, Enum) else value


def _fields(value: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for each in fields(value):
        held = getattr(value, each.name)
        if each.metadata.get("omitted_if_empty") and not held:
            continue
        made[each.metadata.get("name") or _in_camel_case(each.name)] = to_json(held)
    if isinstance(value, Entity):
        del made["statementText"], made["warnings"]
    return made


def _in_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
