"""The analysis of INSERT INTO."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.analysis.calls import located, with_types
from penstock.sql.analysis.expression_types import Types, literal_becomes
from penstock.sql.analysis.plan import Plan, QueryKind, Sink
from penstock.sql.analysis.queries import plan_persistent
from penstock.sql.catalog import Catalog, Column, DataSource, Role
from penstock.sql.language import types
from penstock.sql.language.errors import SqlError
from penstock.sql.language.statements import InsertSelect, InsertValues, SourceKind
from penstock.sql.language.types import SqlType


@dataclass(frozen=True)
class Row:
    """A row to write. A ``rowtime`` of None means the time of writing.

    ``text`` is the script that contains the values.
    """

    target: DataSource
    values: tuple[tuple[Column, exp.Expr], ...]
    rowtime: exp.Expr | None = None
    text: str = ""


def _writable(catalog: Catalog, name: str) -> DataSource:
    target = catalog.source(name)
    if target.read_only:
        raise SqlError(f"found {name} as a SOURCE, which is read only, expected another one to insert into")
    return target


def insert_select(insert: InsertSelect, catalog: Catalog, text: str) -> Plan:
    target = _writable(catalog, insert.name)
    if target.kind is SourceKind.TABLE:
        raise SqlError(f"found INSERT INTO the table {insert.name}, expected a stream for it")
    project = plan_persistent(insert.query, catalog, text)
    if project.kind is SourceKind.TABLE:
        raise SqlError("found a query whose result is a TABLE, expected a STREAM for INSERT INTO").at(
            text, insert.query.source.start
        )
    wanted = [each for each in target.columns if each.role is not Role.HEADERS]
    same = [(each.name, each.role) for each in project.schema] == [(each.name, each.role) for each in wanted]
    becomes = same and all(
        types.can_become(one.type, other.type) for one, other in zip(project.schema, wanted, strict=True)
    )
    if not becomes:
        raise SqlError(
            f"found the columns {_shown(project.schema)}, expected those of {insert.name}: {_shown(wanted)}"
        ).at(text, insert.query.source.start)
    return Plan(QueryKind.PERSISTENT, Sink(project, target, is_new=False))


def _shown(columns: tuple[Column, ...] | list[Column]) -> str:
    return ", ".join(f"{each.name} {each.type}{' KEY' if each.role is Role.KEY else ''}" for each in columns)


def insert_values(insert: InsertValues, catalog: Catalog, text: str) -> Row:
    target = _writable(catalog, insert.name)
    known = {each.name: each for each in target.columns if each.role is not Role.HEADERS}
    names = insert.columns or tuple(sorted(known, key=lambda name: known[name].role is not Role.KEY))
    if len(names) != len(insert.values):
        raise SqlError(f"found {len(insert.values)} values, expected {len(names)}: {', '.join(names)}")
    rowtime: exp.Expr | None = None
    values: list[tuple[Column, exp.Expr]] = []
    for name, written in zip(names, insert.values, strict=True):
        value = with_types(written, catalog, text)
        if name == "ROWTIME":
            _check(name, value, types.BIGINT, catalog, text)
            rowtime = value
        elif name in known:
            _check(name, value, known[name].type, catalog, text)
            values.append((known[name], value))
        else:
            error = SqlError(f"found no column {name} to write, expected one of {', '.join(known)}")
            raise error.at(text, insert.column_starts[insert.columns.index(name)])
    if target.kind is SourceKind.TABLE:
        given = {column.name for column, value in values if not isinstance(value, exp.Null)}
        missing = [each.name for each in target.keys if each.name not in given]
        if missing:
            raise SqlError(f"found no value for {missing[0]}, expected one for each PRIMARY KEY")
    return Row(target, tuple(values), rowtime, text)


def _check(name: str, value: exp.Expr, wanted: SqlType, catalog: Catalog, text: str) -> None:
    for column in value.find_all(exp.Column):
        if not any(isinstance(above, exp.Lambda) for above in _above(column)):
            raise located(SqlError(f"found {column.name} in VALUES, expected no column there"), column, text)
    if not literal_becomes(value, wanted):
        Types(catalog, {}, text).expect(value, wanted, name)


def _above(node: exp.Expr) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found
