"""The logical plan of a query: its steps from the sources to the sink.

Column names are unambiguous within a step: above a join a column is named `ALIAS_COLUMN`, as in ksqlDB, and
every `exp.Column` in an expression is such a name, without a table. A step's `schema` describes its output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from sqlglot import exp

from penstock.sql.catalog import Column, DataSource, Role
from penstock.sql.language.expression_printing import print_expression
from penstock.sql.language.keywords import quoted
from penstock.sql.language.statement_printing import duration, print_window
from penstock.sql.language.statements import JoinKind, SourceKind, Window, Within
from penstock.sql.language.types import SqlType

Schema = tuple[Column, ...]


@dataclass(frozen=True)
class Computed:
    """A column and the expression that computes it."""

    name: str
    expression: exp.Expr
    type: SqlType
    role: Role = Role.VALUE

    @property
    def column(self) -> Column:
        return Column(self.name, self.type, self.role)

    def __str__(self) -> str:
        text, name = print_expression(self.expression), quoted(self.name)
        shown = name if text == name else f"{text} AS {name}"
        return f"{shown} {self.type}{' KEY' if self.role is Role.KEY else ''}"


@dataclass(frozen=True)
class Source:
    """A step that reads a stream's rows or a table's changes. It prepends ``prefix`` to the column names."""

    source: DataSource
    prefix: str
    schema: Schema

    @property
    def kind(self) -> SourceKind:
        return self.source.kind


@dataclass(frozen=True)
class Filter:
    """A step that keeps the rows for which ``condition`` is true. After an aggregation it is HAVING."""

    input: Step
    condition: exp.Expr

    @property
    def kind(self) -> SourceKind:
        return self.input.kind

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Flatten:
    """A step that emits one row per result of the table functions. Nulls pad the shorter results."""

    input: Step
    calls: tuple[Computed, ...]

    @property
    def kind(self) -> SourceKind:
        return self.input.kind

    @property
    def schema(self) -> Schema:
        return (*self.input.schema, *(call.column for call in self.calls))


@dataclass(frozen=True)
class Rekey:
    """A step that sets another key for the rows. No keys at all means PARTITION BY NULL."""

    input: Step
    keys: tuple[Computed, ...]

    @property
    def kind(self) -> SourceKind:
        return self.input.kind

    @property
    def schema(self) -> Schema:
        taken = {key.name for key in self.keys}
        rest = (
            Column(each.name, each.type, Role.VALUE if each.role is Role.KEY else each.role)
            for each in self.input.schema
            if each.name not in taken
        )
        return (*(key.column for key in self.keys), *rest)


@dataclass(frozen=True)
class Aggregate:
    """A step that aggregates rows by key. ``calls`` are aggregate function calls on columns of the input."""

    input: Step
    keys: tuple[Computed, ...]
    calls: tuple[Computed, ...]
    window: Window | None
    schema: Schema

    @property
    def kind(self) -> SourceKind:
        return SourceKind.TABLE


class JoinForm(Enum):
    STREAM_STREAM = "stream-stream"
    STREAM_TABLE = "stream-table"
    TABLE_TABLE = "table-table"
    FOREIGN_KEY = "foreign-key"


@dataclass(frozen=True)
class Join:
    """A step that joins the rows of both sides whose keys are equal.

    ``key`` is the result's key; for a full join it is a separate column, ROWKEY. A foreign-key join keeps
    the left side's keys, and ``key`` is None. ``equivalents`` are the join expressions of this join and of
    the earlier joins on the same key. Each of them represents the key, even in a row without a match on its
    side.
    """

    kind_of_join: JoinKind
    form: JoinForm
    left: Step
    right: Step
    left_key: exp.Expr
    right_key: exp.Expr
    key: str | None
    within: Within | None
    schema: Schema
    equivalents: tuple[exp.Expr, ...] = ()

    @property
    def viable_keys(self) -> tuple[str, ...]:
        """The columns that represent the key. A KEY column among them has the key's value."""
        return tuple(each.name for each in self.equivalents if isinstance(each, exp.Column))

    @property
    def kind(self) -> SourceKind:
        return SourceKind.STREAM if self.left.kind is SourceKind.STREAM else SourceKind.TABLE


@dataclass(frozen=True)
class Project:
    input: Step
    columns: tuple[Computed, ...]

    @property
    def kind(self) -> SourceKind:
        return self.input.kind

    @property
    def schema(self) -> Schema:
        return tuple(column.column for column in self.columns)


@dataclass(frozen=True)
class EmitFinal:
    """A step that emits only the final result of each window, once the window has closed."""

    input: Step

    @property
    def kind(self) -> SourceKind:
        return self.input.kind

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Limit:
    input: Step
    rows: int

    @property
    def kind(self) -> SourceKind:
        return self.input.kind

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Sink:
    """A step that writes the rows to ``target``'s topic. ``is_new`` is false for an INSERT."""

    input: Step
    target: DataSource
    is_new: bool

    @property
    def kind(self) -> SourceKind:
        return self.target.kind

    @property
    def schema(self) -> Schema:
        return self.target.columns


Step = Source | Filter | Flatten | Rekey | Aggregate | Join | Project | EmitFinal | Limit | Sink


class QueryKind(Enum):
    PERSISTENT = "persistent"
    PUSH = "push"
    PULL = "pull"


@dataclass(frozen=True)
class Plan:
    kind: QueryKind
    root: Step
    settings: tuple[tuple[str, str], ...] = field(default=())

    def __str__(self) -> str:
        return "\n".join([f"{self.kind.value} query", *_lines(self.root, 1)])


def _lines(step: Step, depth: int) -> Iterator[str]:
    yield "  " * depth + describe(step)
    if isinstance(step, Join):
        yield from _lines(step.left, depth + 1)
        yield from _lines(step.right, depth + 1)
    elif not isinstance(step, Source):
        yield from _lines(step.input, depth + 1)


def _joined(parts: tuple[Computed, ...]) -> str:
    return ", ".join(map(str, parts))


def describe(step: Step) -> str:
    """Describe one step in one line."""
    match step:
        case Source():
            prefix = f" as {step.prefix}…" if step.prefix else ""
            return f"{step.kind.value.lower()} {quoted(step.source.name)}{prefix}"
        case Filter():
            return f"filter {print_expression(step.condition)}"
        case Flatten():
            return f"flatten {_joined(step.calls)}"
        case Rekey():
            return f"rekey {_joined(step.keys) or 'nothing'}"
        case Aggregate():
            window = f" in {print_window(step.window)}" if step.window is not None else ""
            return f"aggregate {_joined(step.calls)} by {_joined(step.keys)}{window}"
        case Join():
            return _describe_join(step)
        case Project():
            return f"project {_joined(step.columns)}"
        case EmitFinal():
            return "emit final"
        case Limit():
            return f"limit {step.rows}"
    target = step.target
    formats = f"{target.key_format}/{target.value_format}"
    verb = "into new" if step.is_new else "into"
    return f"{verb} {target.kind.value.lower()} {quoted(target.name)} on {target.topic} as {formats}"


def _describe_join(join: Join) -> str:
    within = ""
    if join.within is not None:
        within = f" within {duration(join.within.before_ms)} before, {duration(join.within.after_ms)} after"
        if join.within.grace_ms is not None:
            within += f", grace {duration(join.within.grace_ms)}"
    keys = f"{print_expression(join.left_key)} = {print_expression(join.right_key)}"
    key = f", key {quoted(join.key)}" if join.key is not None else ""
    return f"{join.kind_of_join.value.lower()} {join.form.value} join on {keys}{within}{key}"
