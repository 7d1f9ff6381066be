"""Complete a statement before it is checked and logged, and find out what it needs to exist.

A statement is completed by the size of its topic, the columns that the schema registry knows, and the text of
the file that it names. It may need a topic and registered schemas before it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sqlglot import exp

from penstock.sql.analysis.properties import REGISTERED_FORMATS, Settings
from penstock.sql.catalog import Column
from penstock.sql.engine.changing.applying import columns_text
from penstock.sql.engine.changing.commands import Command, command_id_of
from penstock.sql.engine.ground.cluster_topics import CLEANUP_POLICY, RETENTION_MS, KnownTopics, TopicShape
from penstock.sql.engine.ground.errors import EngineError
from penstock.sql.engine.ground.properties import Values
from penstock.sql.engine.ground.registry_clients import required_registry
from penstock.sql.engine.ground.requests import Step
from penstock.sql.engine.ground.state import State
from penstock.sql.evaluation import UserFunctions
from penstock.sql.formats import Side, registered_columns
from penstock.sql.functions import Function, FunctionKind
from penstock.sql.language import statements as s
from penstock.sql.language.statement_printing import print_statement
from penstock.sql.language.statements import Constraint, Property, SourceKind

_ORIGINAL: Final = (
    "ksql.persistence.default.format.key",
    "ksql.persistence.default.format.value",
    "ksql.persistence.wrap.single.values",
)
"""The server's properties that the meaning of a statement depends on."""

_SIDES: Final = ("KEY", "VALUE")
_KEYS: Final = (Constraint.KEY, Constraint.PRIMARY_KEY)
_HEADERS: Final = (Constraint.HEADERS,)


@dataclass(frozen=True)
class Prepared:
    """A statement that is ready to be logged.

    ``statement`` is what the command says, but its positions are those in the request. ``topic`` is to be
    created if it is not None. ``registers`` names the source whose schemas are to be registered, and
    ``deleted`` the source whose topic is to be deleted.
    """

    command: Command
    statement: s.Statement
    topic: TopicShape | None = None
    registers: str | None = None
    deleted: str | None = None


def prepare(step: Step, state: State, values: Values, topics: KnownTopics) -> Prepared:
    """Complete the statement of a step, without changing anything.

    Raises:
        EngineError: the statement asks for something that the server does not allow.
        ClientError: a request to the brokers or the schema registry failed.
        FormatError, SqlError, UserFunctionError: the statement, or a schema or file that it names, is wrong.
    """
    statement = step.statement
    original = {name: value for name in _ORIGINAL if (value := values.get(name)) is not None}
    text = f"{print_statement(statement)};"
    command = Command(command_id_of(statement), text, dict(step.overrides), original)
    if isinstance(statement, (s.CreateSource, s.CreateAsSelect, s.InsertSelect)):
        command = replace(command, query_number=state.query_number)
    match statement:
        case s.CreateSource():
            settings = _settings(statement.properties, step)
            return _create_source(statement, settings, values, command, topics)
        case s.CreateAsSelect() if statement.query.source.name in state.catalog.sources:
            settings = _settings(statement.properties, step)
            return _create_as_select(statement, settings, state, values, command, topics)
        case s.CreateFunction():
            name = statement.file.rpartition(":")[0]
            function = Function(statement.name, FunctionKind.SCALAR, "", (), statement.file)
            read = UserFunctions.read([function], Path(values.get("ksql.extension.dir") or ""))
            return Prepared(replace(command, file=read.files[name]), statement)
        case s.DropSource(delete_topic=True, name=name) if name in state.catalog.sources:
            _check_topic_is_its_own(state, name)
            return Prepared(command, statement, deleted=name)
    return Prepared(command, statement)


def _create_source(
    create: s.CreateSource,
    settings: Settings,
    values: Values,
    command: Command,
    topics: KnownTopics,
) -> Prepared:
    is_table = create.kind is SourceKind.TABLE
    if is_table and "RETENTION_MS" in settings.numbers:
        raise _no_retention()
    name = settings.texts.get("KAFKA_TOPIC", create.name)
    there = topics.shape(name)
    partitions = settings.numbers.get("PARTITIONS")
    if there is None and partitions is None:
        again = replace(
            create, properties=(*create.properties, Property("PARTITIONS", exp.Literal.number(2)))
        )
        raise EngineError(
            f"Topic '{name}' does not exist. If you want to create a new topic for the stream/table "
            "please re-run the statement providing the required 'PARTITIONS' configuration in the WITH "
            f"clause (and optionally 'REPLICAS'). For example: {print_statement(again)};"
        )
    config = {CLEANUP_POLICY: "compact" if is_table else "delete"}
    if "RETENTION_MS" in settings.numbers:
        config[RETENTION_MS] = str(settings.numbers["RETENTION_MS"])
    wanted = _shape(name, settings, partitions or 0, 0, config)
    if there is not None:
        _check_shape(there, settings)
    columns = _registered(create, settings, values, name)
    if columns:
        command = replace(command, columns=columns_text(columns))
    return Prepared(command, create, wanted if there is None else None, create.name)


def _registered(create: s.CreateSource, settings: Settings, values: Values, topic: str) -> tuple[Column, ...]:
    """The columns that the registry knows, of each side for which the statement lists none."""
    defaults = {side: values.get(f"ksql.persistence.default.format.{side.lower()}") for side in _SIDES}
    listed = {each.constraint in _KEYS for each in create.columns if each.constraint not in _HEADERS}
    texts = {**settings.texts, **{name: str(value) for name, value in settings.numbers.items()}}
    found: list[Column] = []
    for side in (Side.KEY, Side.VALUE):
        format_ = settings.format(side.value, defaults[side.value])
        if format_ not in REGISTERED_FORMATS or (side is Side.KEY) in listed:
            continue
        client = required_registry(values, f"the format {format_}")
        found += registered_columns(side, topic, format_, texts, client)
    return tuple(found)


def _create_as_select(
    create: s.CreateAsSelect,
    settings: Settings,
    state: State,
    values: Values,
    command: Command,
    topics: KnownTopics,
) -> Prepared:
    first = state.catalog.source(create.query.source.name)
    source = topics.shape(first.topic)
    if source is None:
        raise EngineError(f"Kafka topic does not exist: {first.topic}")
    prefix = values.get("ksql.output.topic.name.prefix") or ""
    name = settings.texts.get("KAFKA_TOPIC", f"{prefix}{create.name}")
    replication = (
        source.replication if values.flag("ksql.create.topic.inherit.source.replicas.enabled") else 0
    )
    config = _config_of_result(create, settings, source)
    wanted = _shape(name, settings, source.partitions, replication, config)
    there = topics.shape(name)
    if there is not None:
        _check_shape(there, settings, default_partitions=source.partitions)
    completed = _with(
        create,
        KAFKA_TOPIC=exp.Literal.string(name),
        PARTITIONS=exp.Literal.number(wanted.partitions),
        **({"REPLICAS": exp.Literal.number(wanted.replication)} if wanted.replication else {}),
    )
    command = replace(command, statement=f"{print_statement(completed)};")
    return Prepared(command, completed, wanted if there is None else None, create.name)


def _with(create: s.CreateAsSelect, **given: exp.Expr) -> s.CreateAsSelect:
    """Add those of the given properties that the statement doesn't have."""
    names = {each.name for each in create.properties}
    more = tuple(Property(name, value) for name, value in given.items() if name not in names)
    return replace(create, properties=(*create.properties, *more))


def _shape(
    name: str, settings: Settings, partitions: int, replication: int, config: dict[str, str]
) -> TopicShape:
    """The topic that a statement describes; the arguments are its defaults."""
    count = settings.numbers.get("PARTITIONS", partitions)
    return TopicShape(name, count, settings.numbers.get("REPLICAS", replication), config)


def _config_of_result(create: s.CreateAsSelect, settings: Settings, source: TopicShape) -> dict[str, str]:
    """The topic configuration of a result.

    A stream keeps its source's retention, and a table is compacted. A windowed table is compacted and also
    deletes old windows.
    """
    asked = settings.numbers.get("RETENTION_MS")
    window = create.query.window
    if create.kind is SourceKind.TABLE and window is None:
        if asked is not None:
            raise _no_retention()
        return {CLEANUP_POLICY: "compact"}
    policy = "delete" if window is None or create.kind is SourceKind.STREAM else "compact,delete"
    kept_ms = asked
    if asked is None and "delete" in source.config.get(CLEANUP_POLICY, "delete"):
        kept_ms = int(source.config.get(RETENTION_MS, "-1"))
    if create.kind is SourceKind.TABLE and window is not None and window.retention_ms is not None:
        kept_ms = window.retention_ms if kept_ms is None else max(kept_ms, window.retention_ms)
    return {CLEANUP_POLICY: policy} | ({} if kept_ms is None else {RETENTION_MS: str(kept_ms)})


def _no_retention() -> EngineError:
    return EngineError(
        "Invalid config variable in the WITH clause: RETENTION_MS. Non-windowed tables do not support "
        "retention."
    )


def _settings(properties: s.Properties, step: Step) -> Settings:
    settings = Settings.of(properties, step.script)
    if "CLEANUP_POLICY" in settings.texts:
        raise EngineError(
            "Invalid config variable in the WITH clause: CLEANUP_POLICY.\nThe CLEANUP_POLICY config is "
            "automatically inferred based on the type of source (STREAM or TABLE).\nUsers can't set the "
            "CLEANUP_POLICY config manually."
        )
    return settings


def _check_shape(there: TopicShape, settings: Settings, default_partitions: int | None = None) -> None:
    """Check that an existing topic has the sizes that a statement asks for. Raises EngineError."""
    partitions = settings.numbers.get("PARTITIONS", default_partitions)
    replicas = settings.numbers.get("REPLICAS")
    if partitions in (None, there.partitions) and replicas in (None, there.replication):
        return
    raise EngineError(
        f"A Kafka topic with the name '{there.name}' already exists, with different partition/replica "
        f"configuration than required. KSQL expects {partitions or there.partitions} partitions (topic has "
        f"{there.partitions}), and {replicas or there.replication} replication factor (topic has "
        f"{there.replication})."
    )


def _check_topic_is_its_own(state: State, name: str) -> None:
    topic = state.catalog.sources[name].topic
    others = sorted(
        each.name for each in state.catalog.sources.values() if each.topic == topic and each.name != name
    )
    if others:
        raise EngineError(
            f"Refusing to delete topic. Found other data sources ({', '.join(others)}) using topic {topic}"
        )
