"""Printing of statements on one line, in ksqlDB's own format. A printed statement parses to an equal one."""

from __future__ import annotations

from functools import singledispatch

from sqlglot import exp

from penstock.sql.language import statements as s
from penstock.sql.language.expression_printing import print_expression
from penstock.sql.language.keywords import WINDOW_UNITS, quoted, string_literal

_UNITS = [unit for unit in WINDOW_UNITS if unit.endswith("S")]


@singledispatch
def print_statement(statement: s.Statement) -> str:
    """Print the statement, without a semicolon."""
    raise TypeError(f"{type(statement).__name__} is not a statement")


def duration(milliseconds: int) -> str:
    """Print a duration in the largest unit that divides it, such as `2 HOURS`."""
    unit = next(unit for unit in reversed(_UNITS) if milliseconds % WINDOW_UNITS[unit] == 0)
    return f"{milliseconds // WINDOW_UNITS[unit]} {unit}"


def _words(*words: str | bool | None) -> str:
    return " ".join(word for word in words if isinstance(word, str) and word)


def _expressions(nodes: tuple[exp.Expr, ...]) -> str:
    return ", ".join(print_expression(node) for node in nodes)


def _names(names: tuple[str, ...]) -> str:
    return f"({', '.join(quoted(name) for name in names)})" if names else ""


def _properties(properties: s.Properties) -> str:
    def name(text: str) -> str:
        plain = quoted(text) == text
        return text if plain else string_literal(text)

    listed = ", ".join(f"{name(each.name)} = {print_expression(each.value)}" for each in properties)
    return f"WITH ({listed})" if properties else ""


def _column(column: s.ColumnDefinition) -> str:
    constraint = column.constraint.value if column.constraint is not None else None
    if column.header is not None:
        constraint = f"HEADER({string_literal(column.header)})"
    return _words(quoted(column.name), str(column.type), constraint)


def _columns(columns: tuple[s.ColumnDefinition, ...]) -> str:
    return f"({', '.join(_column(column) for column in columns)})" if columns else ""


def _relation(relation: s.Relation) -> str:
    return _words(quoted(relation.name), relation.alias is not None and f"AS {quoted(relation.alias)}")


def _within(within: s.Within) -> str:
    if within.before_ms == within.after_ms:
        size = duration(within.before_ms)
    else:
        size = f"({duration(within.before_ms)}, {duration(within.after_ms)})"
    return f"WITHIN {size}{'' if within.grace_ms is None else f' GRACE PERIOD {duration(within.grace_ms)}'}"


def _join(join: s.JoinedRelation) -> str:
    return _words(
        f"{join.kind.value} JOIN {_relation(join.relation)}",
        join.within is not None and _within(join.within),
        f"ON {print_expression(join.condition)}",
    )


def print_window(window: s.Window) -> str:
    """Print a window clause without its first word, WINDOW."""
    size = duration(window.size_ms)
    parts = [size if window.kind is s.WindowKind.SESSION else f"SIZE {size}"]
    if window.advance_ms is not None:
        parts.append(f"ADVANCE BY {duration(window.advance_ms)}")
    if window.retention_ms is not None:
        parts.append(f"RETENTION {duration(window.retention_ms)}")
    if window.grace_ms is not None:
        parts.append(f"GRACE PERIOD {duration(window.grace_ms)}")
    return f"{window.kind.value} ({', '.join(parts)})"


def _item(item: s.SelectItem) -> str:
    if isinstance(item.expression, exp.Dot) and isinstance(item.expression.expression, exp.Star):
        return f"{print_expression(item.expression.this)}->*"
    if isinstance(item.expression, exp.Column) and isinstance(item.expression.this, exp.Star):
        return f"{quoted(item.expression.table)}.*"
    alias = item.alias is not None and f"AS {quoted(item.alias)}"
    return _words(print_expression(item.expression), alias)


def _clause(word: str, node: exp.Expr | None) -> str | None:
    return None if node is None else f"{word} {print_expression(node)}"


def _keys(word: str, nodes: tuple[exp.Expr, ...]) -> str | None:
    return f"{word} BY {_expressions(nodes)}" if nodes else None


@print_statement.register
def _(query: s.Query) -> str:
    return _words(
        f"SELECT {', '.join(_item(item) for item in query.items)}",
        f"FROM {_relation(query.source)}",
        *(_join(join) for join in query.joins),
        query.window is not None and f"WINDOW {print_window(query.window)}",
        _clause("WHERE", query.where),
        _keys("GROUP", query.group_by),
        _keys("PARTITION", query.partition_by),
        _clause("HAVING", query.having),
        query.emit is not None and f"EMIT {query.emit.value}",
        query.limit is not None and f"LIMIT {query.limit}",
    )


@print_statement.register
def _(create: s.CreateSource) -> str:
    return _words(
        "CREATE",
        create.or_replace and "OR REPLACE",
        create.read_only and "SOURCE",
        create.kind.value,
        create.if_not_exists and "IF NOT EXISTS",
        quoted(create.name),
        _columns(create.columns),
        _properties(create.properties),
    )


@print_statement.register
def _(create: s.CreateAsSelect) -> str:
    return _words(
        "CREATE",
        create.or_replace and "OR REPLACE",
        create.kind.value,
        create.if_not_exists and "IF NOT EXISTS",
        quoted(create.name),
        _properties(create.properties),
        "AS",
        print_statement(create.query),
    )


@print_statement.register
def _(insert: s.InsertSelect) -> str:
    query = print_statement(insert.query)
    return _words("INSERT INTO", quoted(insert.name), _properties(insert.properties), query)


@print_statement.register
def _(insert: s.InsertValues) -> str:
    values = f"VALUES ({_expressions(insert.values)})"
    return _words("INSERT INTO", quoted(insert.name), _names(insert.columns), values)


@print_statement.register
def _(drop: s.DropSource) -> str:
    exists, topic = drop.if_exists and "IF EXISTS", drop.delete_topic and "DELETE TOPIC"
    return _words("DROP", drop.kind.value, exists, quoted(drop.name), topic)


@print_statement.register
def _(alter: s.AlterSource) -> str:
    added = ", ".join(f"ADD COLUMN {quoted(each.name)} {each.type}" for each in alter.added)
    return _words("ALTER", alter.kind.value, quoted(alter.name), added)


@print_statement.register
def _(create: s.CreateType) -> str:
    exists = create.if_not_exists and "IF NOT EXISTS"
    return _words("CREATE TYPE", exists, quoted(create.name), "AS", str(create.type))


@print_statement.register
def _(create: s.CreateFunction) -> str:
    parameters = ", ".join(f"{quoted(name)} {type_}" for name, type_ in create.parameters)
    return _words(
        "CREATE",
        create.or_replace and "OR REPLACE",
        f"FUNCTION {quoted(create.name)}({parameters})",
        f"RETURNS {create.result} AS {string_literal(create.file)}",
    )


@print_statement.register
def _(create: s.CreateConnector) -> str:
    exists = create.if_not_exists and "IF NOT EXISTS"
    name, properties = quoted(create.name), _properties(create.properties)
    return _words("CREATE", create.kind.value, "CONNECTOR", exists, name, properties)


def _drop(what: str, name: str, if_exists: bool) -> str:
    return _words("DROP", what, if_exists and "IF EXISTS", quoted(name))


@print_statement.register
def _(drop: s.DropType) -> str:
    return _drop("TYPE", drop.name, drop.if_exists)


@print_statement.register
def _(drop: s.DropFunction) -> str:
    return _drop("FUNCTION", drop.name, drop.if_exists)


@print_statement.register
def _(drop: s.DropConnector) -> str:
    return _drop("CONNECTOR", drop.name, drop.if_exists)


@print_statement.register
def _(show: s.Show) -> str:
    return _words("SHOW", show.everything and "ALL", show.what.value, show.extended and "EXTENDED")


@print_statement.register
def _(describe: s.Describe) -> str:
    name = quoted(describe.name) if describe.name else None
    # A source named like a word that starts another form of DESCRIBE must be quoted.
    if describe.what is s.Described.SOURCE and describe.name in ("TABLES", "FUNCTION"):
        name = f"`{describe.name}`"
    return _words("DESCRIBE", describe.what.value, name, describe.extended and "EXTENDED")


@print_statement.register
def _(explain: s.Explain) -> str:
    if explain.statement is not None:
        return f"EXPLAIN {print_statement(explain.statement)}"
    return f"EXPLAIN {quoted(explain.query_id or '')}"


def _resource(name: str) -> str:
    return name if quoted(name) == name else string_literal(name)


@print_statement.register
def _(printed: s.Print) -> str:
    return _words(
        "PRINT",
        _resource(printed.topic),
        printed.from_beginning and "FROM BEGINNING",
        printed.interval is not None and f"INTERVAL {printed.interval}",
        printed.limit is not None and f"LIMIT {printed.limit}",
    )


@print_statement.register
def _(control: s.ControlQuery) -> str:
    return f"{control.action.value} {'ALL' if control.query_id is None else quoted(control.query_id)}"


def _assignment(word: str, name: str, value: str) -> str:
    return f"{word} {string_literal(name)} = {string_literal(value)}"


@print_statement.register
def _(statement: s.SetProperty) -> str:
    return _assignment("SET", statement.name, statement.value)


@print_statement.register
def _(statement: s.AlterSystem) -> str:
    return _assignment("ALTER SYSTEM", statement.name, statement.value)


@print_statement.register
def _(statement: s.UnsetProperty) -> str:
    return f"UNSET {string_literal(statement.name)}"


@print_statement.register
def _(define: s.Define) -> str:
    return f"DEFINE {define.name} = {string_literal(define.value)}"


@print_statement.register
def _(undefine: s.Undefine) -> str:
    return f"UNDEFINE {undefine.name}"


@print_statement.register
def _(run: s.RunScript) -> str:
    return f"RUN SCRIPT {string_literal(run.path)}"


def _assert(absent: bool, timeout_ms: int | None, *words: str | bool | None) -> str:
    timeout = timeout_ms is not None and f"TIMEOUT {duration(timeout_ms)}"
    return _words("ASSERT", absent and "NOT EXISTS", *words, timeout)


@print_statement.register
def _(check: s.AssertTopic) -> str:
    properties = _properties(check.properties)
    return _assert(check.absent, check.timeout_ms, "TOPIC", _resource(check.topic), properties)


@print_statement.register
def _(check: s.AssertSchema) -> str:
    subject = check.subject is not None and f"SUBJECT {_resource(check.subject)}"
    schema_id = check.schema_id is not None and f"ID {check.schema_id}"
    return _assert(check.absent, check.timeout_ms, "SCHEMA", subject, schema_id)


@print_statement.register
def _(check: s.AssertSource) -> str:
    columns, properties = _columns(check.columns), _properties(check.properties)
    return _words("ASSERT", check.kind.value, quoted(check.name), columns, properties)


@print_statement.register
def _(check: s.AssertValues) -> str:
    values = f"VALUES ({_expressions(check.values)})"
    return _words("ASSERT VALUES", quoted(check.name), _names(check.columns), values)


@print_statement.register
def _(check: s.AssertTombstone) -> str:
    key = f"KEY ({_expressions(check.key)})"
    return _words("ASSERT NULL VALUES", quoted(check.name), _names(check.columns), key)
