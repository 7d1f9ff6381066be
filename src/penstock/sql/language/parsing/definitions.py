"""The parsers of CREATE, DROP, ALTER, INSERT and ASSERT, and of the columns and WITH (…) that they share."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.language.parsing.cursor import Cursor
from penstock.sql.language.parsing.expressions import literal, parse_expression
from penstock.sql.language.parsing.lexer import Kind
from penstock.sql.language.parsing.queries import duration_ms, parse_query
from penstock.sql.language.parsing.type_names import parse_type
from penstock.sql.language.statements import (
    AlterSource,
    AssertSchema,
    AssertSource,
    AssertTombstone,
    AssertTopic,
    AssertValues,
    ColumnDefinition,
    ConnectorKind,
    Constraint,
    CreateAsSelect,
    CreateConnector,
    CreateFunction,
    CreateSource,
    CreateType,
    DropConnector,
    DropFunction,
    DropSource,
    DropType,
    InsertSelect,
    InsertValues,
    Properties,
    Property,
    SourceKind,
    Statement,
)
from penstock.sql.language.types import SqlType


def create(cursor: Cursor) -> Statement:
    or_replace = False
    if cursor.accept("OR"):
        cursor.expect("REPLACE")
        or_replace = True
    elif cursor.sees("SOURCE", "CONNECTOR") or cursor.sees("SINK"):
        return _create_connector(cursor)
    elif cursor.accept("TYPE"):
        return _create_type(cursor)
    if cursor.accept("FUNCTION"):
        return _create_function(cursor, or_replace)
    read_only = cursor.accept("SOURCE")
    kind = SourceKind(cursor.expect_one("STREAM", "TABLE"))
    if_not_exists = _if_not_exists(cursor)
    start = cursor.token.start
    name = cursor.name(f"a {kind.value.lower()}'s name")
    columns = _columns(cursor) if cursor.accept("(") else ()
    properties = _with(cursor)
    if not columns and not read_only and cursor.accept("AS"):
        return CreateAsSelect(kind, name, parse_query(cursor), properties, or_replace, if_not_exists, start)
    return CreateSource(kind, name, columns, properties, read_only, or_replace, if_not_exists, start)


def _if_not_exists(cursor: Cursor) -> bool:
    if not cursor.sees("IF", "NOT") or not cursor.accept("IF", "NOT"):
        return False
    cursor.expect("EXISTS")
    return True


def _if_exists(cursor: Cursor) -> bool:
    return cursor.sees("IF", "EXISTS") and cursor.accept("IF", "EXISTS")


def _columns(cursor: Cursor) -> tuple[ColumnDefinition, ...]:
    found: dict[str, ColumnDefinition] = {}
    while not found or cursor.accept(","):
        token = cursor.token
        name = cursor.name("a column's name")
        if name in found:
            raise cursor.error(f"found the column {name} twice, expected different names", token)
        found[name] = _column(cursor, name, token.start)
    cursor.expect(")")
    return tuple(found.values())


def _column(cursor: Cursor, name: str, start: int) -> ColumnDefinition:
    type_ = parse_type(cursor)
    if cursor.accept("PRIMARY"):
        cursor.expect("KEY")
        return ColumnDefinition(name, type_, Constraint.PRIMARY_KEY, start=start)
    if cursor.accept("KEY"):
        return ColumnDefinition(name, type_, Constraint.KEY, start=start)
    if cursor.accept("HEADERS"):
        return ColumnDefinition(name, type_, Constraint.HEADERS, start=start)
    if cursor.accept("HEADER"):
        cursor.expect("(")
        header = cursor.string("a header's key in quotes")
        cursor.expect(")")
        return ColumnDefinition(name, type_, Constraint.HEADERS, header, start)
    return ColumnDefinition(name, type_, start=start)


def _with(cursor: Cursor) -> Properties:
    return _property_list(cursor) if cursor.accept("WITH") else ()


def _property_list(cursor: Cursor) -> Properties:
    cursor.expect("(")
    found: dict[str, Property] = {}
    while not found or cursor.accept(","):
        token = cursor.token
        # A reserved word is accepted here; the later validation of properties rejects it.
        is_plain = token.kind in (Kind.STRING, Kind.WORD)
        name = cursor.advance().text if is_plain else cursor.name("a property's name")
        cursor.expect("=")
        if name in found:
            raise cursor.error(f"found the property {name} twice, expected different names", token)
        found[name] = Property(name, literal(cursor, constant_only=True), token.start)
    cursor.expect(")")
    return tuple(found.values())


def _create_connector(cursor: Cursor) -> CreateConnector:
    kind = ConnectorKind(cursor.expect_one("SOURCE", "SINK"))
    cursor.expect("CONNECTOR")
    if_not_exists = _if_not_exists(cursor)
    name = cursor.name("a connector's name")
    cursor.expect("WITH")
    return CreateConnector(kind, name, _property_list(cursor), if_not_exists)


def _create_type(cursor: Cursor) -> CreateType:
    if_not_exists = _if_not_exists(cursor)
    start = cursor.token.start
    name = cursor.name("a type's name")
    cursor.expect("AS")
    return CreateType(name, parse_type(cursor), if_not_exists, start)


def _create_function(cursor: Cursor, or_replace: bool) -> CreateFunction:
    start = cursor.token.start
    name = cursor.name("a function's name").upper()
    cursor.expect("(")
    parameters: dict[str, SqlType] = {}
    while not cursor.accept(")"):
        if parameters:
            cursor.expect(",")
        token = cursor.token
        parameter = cursor.name("a parameter's name")
        if parameter in parameters:
            raise cursor.error(f"found the parameter {parameter} twice, expected different names", token)
        parameters[parameter] = parse_type(cursor)
    cursor.expect("RETURNS")
    result = parse_type(cursor)
    cursor.expect("AS")
    token = cursor.token
    file = cursor.string("a Python file in quotes")
    path, separator, function = file.rpartition(":")
    if not separator or not path.endswith(".py") or not function.isidentifier():
        raise cursor.error(f"found {token.source}, expected 'file.py:function'", token)
    return CreateFunction(name, tuple(parameters.items()), result, file, or_replace, start)


def drop(cursor: Cursor) -> Statement:
    what = cursor.expect_one("STREAM", "TABLE", "CONNECTOR", "TYPE", "FUNCTION")
    if_exists = _if_exists(cursor)
    start = cursor.token.start
    name = cursor.name(f"a {what.lower()}'s name")
    if what == "CONNECTOR":
        return DropConnector(name, if_exists)
    if what == "TYPE":
        return DropType(name, if_exists, start)
    if what == "FUNCTION":
        return DropFunction(name.upper(), if_exists, start)
    delete_topic = cursor.accept("DELETE")
    if delete_topic:
        cursor.expect("TOPIC")
    return DropSource(SourceKind(what), name, if_exists, delete_topic, start)


def alter_source(cursor: Cursor, kind: SourceKind) -> AlterSource:
    start = cursor.token.start
    name = cursor.name(f"a {kind.value.lower()}'s name")
    added: list[ColumnDefinition] = []
    while not added or cursor.accept(","):
        cursor.expect("ADD")
        if cursor.sees("COLUMN") and cursor.ahead(2).text not in (",", ";", ""):
            cursor.advance()
        place = cursor.token.start
        column = cursor.name("a column's name")
        added.append(ColumnDefinition(column, parse_type(cursor), start=place))
    return AlterSource(kind, name, tuple(added), start)


def insert(cursor: Cursor) -> Statement:
    cursor.expect("INTO")
    start = cursor.token.start
    name = cursor.name("a stream or table")
    if cursor.sees("("):
        places = _names(cursor)
        columns = tuple(places)
        cursor.expect("VALUES")
        return InsertValues(name, columns, _values(cursor, columns), start, tuple(places.values()))
    if cursor.accept("VALUES"):
        return InsertValues(name, (), _values(cursor, ()), start)
    properties = _with(cursor)
    return InsertSelect(name, parse_query(cursor), properties, start)


def _names(cursor: Cursor) -> dict[str, int]:
    """Parse a list of column names, and map each to its offset in the text."""
    cursor.expect("(")
    found: dict[str, int] = {}
    while not found or cursor.accept(","):
        token = cursor.token
        name = cursor.name("a column's name")
        if name in found:
            raise cursor.error(f"found the column {name} twice, expected different names", token)
        found[name] = token.start
    cursor.expect(")")
    return found


def _values(cursor: Cursor, columns: tuple[str, ...]) -> tuple[exp.Expr, ...]:
    start = cursor.token
    cursor.expect("(")
    found = [parse_expression(cursor)]
    while cursor.accept(","):
        found.append(parse_expression(cursor))
    cursor.expect(")")
    if columns and len(found) != len(columns):
        problem = f"found {len(found)} values for {len(columns)} columns, expected one for each"
        raise cursor.error(problem, start)
    return tuple(found)


def assert_(cursor: Cursor) -> Statement:
    if cursor.accept("NOT"):
        cursor.expect("EXISTS")
        return _assert_topic(cursor, True) if cursor.accept("TOPIC") else _assert_schema(cursor, True)
    if cursor.accept("TOPIC"):
        return _assert_topic(cursor, False)
    if cursor.sees("SCHEMA"):
        return _assert_schema(cursor, False)
    if cursor.accept("VALUES"):
        name, columns = _asserted_columns(cursor)
        cursor.expect("VALUES")
        return AssertValues(name, columns, _values(cursor, columns))
    if cursor.accept("NULL"):
        cursor.expect("VALUES")
        name, columns = _asserted_columns(cursor)
        cursor.expect("KEY")
        return AssertTombstone(name, columns, _values(cursor, columns))
    kind = SourceKind(cursor.expect_one("STREAM", "TABLE"))
    name = cursor.name(f"a {kind.value.lower()}'s name")
    columns_ = _columns(cursor) if cursor.accept("(") else ()
    return AssertSource(kind, name, columns_, _with(cursor))


def _asserted_columns(cursor: Cursor) -> tuple[str, tuple[str, ...]]:
    name = cursor.name("a stream or table")
    return name, tuple(_names(cursor)) if cursor.sees("(") else ()


def resource(cursor: Cursor, what: str) -> str:
    """Parse the name of an external resource, such as a topic, with or without quotes. It keeps its case."""
    token = cursor.token
    if token.kind is Kind.STRING:
        return cursor.advance().text
    name = cursor.name(what)
    return token.source if token.kind is Kind.WORD else name


def _assert_topic(cursor: Cursor, absent: bool) -> AssertTopic:
    topic = resource(cursor, "a topic")
    properties = _with(cursor)
    return AssertTopic(topic, properties, _timeout(cursor), absent)


def _assert_schema(cursor: Cursor, absent: bool) -> AssertSchema:
    cursor.expect("SCHEMA")
    subject = resource(cursor, "a subject") if cursor.accept("SUBJECT") else None
    schema_id = cursor.integer("a schema's id") if cursor.accept("ID") else None
    if subject is None and schema_id is None:
        cursor.fail()
    return AssertSchema(subject, schema_id, _timeout(cursor), absent)


def _timeout(cursor: Cursor) -> int | None:
    return duration_ms(cursor) if cursor.accept("TIMEOUT") else None
