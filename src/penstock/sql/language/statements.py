"""The syntax tree of statements, with one small class for each kind.

Names are as ksqlDB resolves them (in upper case unless quoted); expressions are sqlglot's nodes. ``start``
is the offset of a name in the text, for errors; it is ignored when statements are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from penstock.sql.language.types import SqlType

if TYPE_CHECKING:  # formats import the kinds of sources and windows, and need no trees
    from sqlglot import exp


class SourceKind(Enum):
    STREAM = "STREAM"
    TABLE = "TABLE"


@dataclass(frozen=True)
class Statement:
    """A statement of the language."""


# Queries


@dataclass(frozen=True)
class SelectItem:
    """A SELECT item. ``expression`` is a Star, a Column (`a.*`) or Dot (`a->*`) of a Star, or a value."""

    expression: exp.Expr
    alias: str | None = None


@dataclass(frozen=True)
class Relation:
    name: str
    alias: str | None = None
    start: int = field(default=0, compare=False)

    @property
    def known_as(self) -> str:
        return self.alias or self.name


class JoinKind(Enum):
    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"


@dataclass(frozen=True)
class Within:
    """The maximum time difference between the two sides of a stream-stream join."""

    before_ms: int
    after_ms: int
    grace_ms: int | None = None


@dataclass(frozen=True)
class JoinedRelation:
    kind: JoinKind
    relation: Relation
    within: Within | None
    condition: exp.Expr


class WindowKind(Enum):
    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


@dataclass(frozen=True)
class Window:
    """A window. ``size_ms`` is the inactivity gap of a SESSION; only HOPPING windows set ``advance_ms``."""

    kind: WindowKind
    size_ms: int
    advance_ms: int | None = None
    retention_ms: int | None = None
    grace_ms: int | None = None


class Emit(Enum):
    CHANGES = "CHANGES"
    FINAL = "FINAL"


@dataclass(frozen=True)
class Query(Statement):
    """A SELECT. Without EMIT it is a pull query, unless it is part of a persistent query's statement."""

    items: tuple[SelectItem, ...]
    source: Relation
    joins: tuple[JoinedRelation, ...] = ()
    window: Window | None = None
    where: exp.Expr | None = None
    group_by: tuple[exp.Expr, ...] = ()
    partition_by: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    emit: Emit | None = None
    limit: int | None = None


# Definitions


class Constraint(Enum):
    KEY = "KEY"
    PRIMARY_KEY = "PRIMARY KEY"
    HEADERS = "HEADERS"


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of a CREATE statement. ``header`` is the key in HEADER('…')."""

    name: str
    type: SqlType
    constraint: Constraint | None = None
    header: str | None = None
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Property:
    """A property of WITH (…). ``name`` is in upper case unless it was quoted, and ``value`` is a literal."""

    name: str
    value: exp.Expr
    start: int = field(default=0, compare=False)


Properties = tuple[Property, ...]


@dataclass(frozen=True)
class CreateSource(Statement):
    """CREATE [OR REPLACE] [SOURCE] STREAM|TABLE name (columns) WITH (…)."""

    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...] = ()
    properties: Properties = ()
    read_only: bool = False
    or_replace: bool = False
    if_not_exists: bool = False
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class CreateAsSelect(Statement):
    kind: SourceKind
    name: str
    query: Query
    properties: Properties = ()
    or_replace: bool = False
    if_not_exists: bool = False
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class InsertSelect(Statement):
    name: str
    query: Query
    properties: Properties = ()
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class InsertValues(Statement):
    name: str
    columns: tuple[str, ...]
    values: tuple[exp.Expr, ...]
    start: int = field(default=0, compare=False)
    column_starts: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class DropSource(Statement):
    kind: SourceKind
    name: str
    if_exists: bool = False
    delete_topic: bool = False
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class AlterSource(Statement):
    kind: SourceKind
    name: str
    added: tuple[ColumnDefinition, ...]
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class CreateType(Statement):
    name: str
    type: SqlType
    if_not_exists: bool = False
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class DropType(Statement):
    name: str
    if_exists: bool = False
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE FUNCTION name(arguments) RETURNS type AS 'file.py:name'. An extension; ksqlDB loads jars."""

    name: str
    parameters: tuple[tuple[str, SqlType], ...]
    result: SqlType
    file: str
    or_replace: bool = False
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class DropFunction(Statement):
    name: str
    if_exists: bool = False
    start: int = field(default=0, compare=False)


class ConnectorKind(Enum):
    SOURCE = "SOURCE"
    SINK = "SINK"


@dataclass(frozen=True)
class CreateConnector(Statement):
    kind: ConnectorKind
    name: str
    properties: Properties
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropConnector(Statement):
    name: str
    if_exists: bool = False


# Inspection


class Listed(Enum):
    PROPERTIES = "PROPERTIES"
    TOPICS = "TOPICS"
    STREAMS = "STREAMS"
    TABLES = "TABLES"
    FUNCTIONS = "FUNCTIONS"
    CONNECTORS = "CONNECTORS"
    SOURCE_CONNECTORS = "SOURCE CONNECTORS"
    SINK_CONNECTORS = "SINK CONNECTORS"
    CONNECTOR_PLUGINS = "CONNECTOR PLUGINS"
    TYPES = "TYPES"
    VARIABLES = "VARIABLES"
    QUERIES = "QUERIES"


@dataclass(frozen=True)
class Show(Statement):
    """SHOW or LIST; ``everything`` is SHOW ALL TOPICS."""

    what: Listed
    extended: bool = False
    everything: bool = False


class Described(Enum):
    SOURCE = ""
    STREAMS = "STREAMS"
    TABLES = "TABLES"
    FUNCTION = "FUNCTION"
    CONNECTOR = "CONNECTOR"


@dataclass(frozen=True)
class Describe(Statement):
    what: Described
    name: str = ""
    extended: bool = False
    start: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN of a statement, or of a running query by its ID."""

    statement: Statement | None = None
    query_id: str | None = None


@dataclass(frozen=True)
class Print(Statement):
    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


# Changes to the session and to running queries


class QueryAction(Enum):
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    TERMINATE = "TERMINATE"


@dataclass(frozen=True)
class ControlQuery(Statement):
    """PAUSE, RESUME or TERMINATE. Without a query ID it applies to all queries."""

    action: QueryAction
    query_id: str | None


@dataclass(frozen=True)
class SetProperty(Statement):
    name: str
    value: str


@dataclass(frozen=True)
class UnsetProperty(Statement):
    name: str


@dataclass(frozen=True)
class AlterSystem(Statement):
    name: str
    value: str


@dataclass(frozen=True)
class Define(Statement):
    name: str
    value: str


@dataclass(frozen=True)
class Undefine(Statement):
    name: str


@dataclass(frozen=True)
class RunScript(Statement):
    path: str


# Assertions


@dataclass(frozen=True)
class AssertTopic(Statement):
    topic: str
    properties: Properties = ()
    timeout_ms: int | None = None
    absent: bool = False


@dataclass(frozen=True)
class AssertSchema(Statement):
    subject: str | None
    schema_id: int | None
    timeout_ms: int | None = None
    absent: bool = False


@dataclass(frozen=True)
class AssertSource(Statement):
    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...] = ()
    properties: Properties = ()


@dataclass(frozen=True)
class AssertValues(Statement):
    name: str
    columns: tuple[str, ...]
    values: tuple[exp.Expr, ...]


@dataclass(frozen=True)
class AssertTombstone(Statement):
    name: str
    columns: tuple[str, ...]
    key: tuple[exp.Expr, ...]
