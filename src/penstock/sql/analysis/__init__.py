"""The semantic analysis of statements against a catalog, with ksqlDB's rules and restrictions.

`analyze(statement, catalog)` returns an `Analysis`: a plan, a row to insert, or a changed catalog. Statements
that only show or set something (SHOW, SET, PAUSE …) need no analysis. Nothing in this package runs a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.sql.analysis import definitions, inserts
from penstock.sql.analysis.inserts import Row
from penstock.sql.analysis.plan import Plan, Sink
from penstock.sql.analysis.properties import STANDARD_FORMATS, DefaultFormats
from penstock.sql.analysis.queries import plan_query
from penstock.sql.catalog import Catalog, Column, DataSource
from penstock.sql.functions import Function, FunctionKind, Parameter, Signature
from penstock.sql.language import statements as s
from penstock.sql.language.errors import SqlError
from penstock.sql.language.types import SqlType

__all__ = ["Analysis", "DefaultFormats", "Row", "analyze"]


@dataclass(frozen=True)
class Analysis:
    """The result of an analysis: the catalog after the statement, and the plan to run or the row to write."""

    catalog: Catalog
    plan: Plan | None = None
    row: Row | None = None


def analyze(
    statement: s.Statement,
    catalog: Catalog,
    text: str = "",
    start: int = 0,
    registered: Sequence[Column] = (),
    defaults: DefaultFormats = STANDARD_FORMATS,
) -> Analysis:
    """Analyze a statement against a catalog.

    ``text`` is the script that the statement comes from, and ``start`` its offset there. Errors show their
    place in it, or else the place of the statement's name. ``registered`` are the columns of key and value
    from a schema registry, for a CREATE that lists none of them; ``defaults`` are the formats for a CREATE
    that names none. Raises a SqlError if the statement is invalid.
    """
    try:
        return _analyzed(statement, catalog, text, registered, defaults)
    except SqlError as error:
        raise error.at(text, _name_start(statement) or start) from None


def _name_start(statement: s.Statement) -> int:
    """The offset of the name that a statement defines, changes or shows, or 0 if it has none."""
    if isinstance(statement, s.Explain) and statement.statement is not None:
        return _name_start(statement.statement)
    start = getattr(statement, "start", 0)
    assert isinstance(start, int)
    return start


def _analyzed(
    statement: s.Statement,
    catalog: Catalog,
    text: str,
    registered: Sequence[Column],
    defaults: DefaultFormats,
) -> Analysis:
    match statement:
        case s.Query():
            return Analysis(catalog, plan_query(statement, catalog, text))
        case s.CreateAsSelect():
            return _create_as_select(statement, catalog, text, defaults)
        case s.CreateSource():
            return _create_source(statement, catalog, text, registered, defaults)
        case s.InsertSelect():
            return Analysis(catalog, inserts.insert_select(statement, catalog, text))
        case s.InsertValues():
            return Analysis(catalog, row=inserts.insert_values(statement, catalog, text))
        case s.AlterSource():
            return Analysis(catalog.with_source(definitions.alter_source(statement, catalog, text)))
        case s.DropSource():
            return Analysis(definitions.drop_source(statement, catalog))
        case s.Explain(statement=s.Statement() as explained):
            return Analysis(catalog, _analyzed(explained, catalog, text, registered, defaults).plan)
        case s.Describe(what=s.Described.SOURCE):
            catalog.source(statement.name)
        case s.Describe(what=s.Described.FUNCTION):
            catalog.function(statement.name)
    return Analysis(_types_and_functions(statement, catalog))


def _defined(statement: s.CreateSource | s.CreateAsSelect, catalog: Catalog, source: DataSource) -> Catalog:
    """Add a source to the catalog. Raises a SqlError if the name is taken and must not be replaced."""
    old = catalog.sources.get(statement.name)
    if old is not None:
        if not statement.or_replace:
            raise SqlError(
                f"found {statement.name}, which is a {old.kind.value} already, expected a new name"
            )
        definitions.replaced(old, source)
    return catalog.with_source(source)


def _create_source(
    create: s.CreateSource,
    catalog: Catalog,
    text: str,
    registered: Sequence[Column],
    defaults: DefaultFormats,
) -> Analysis:
    if create.if_not_exists and create.name in catalog.sources:
        return Analysis(catalog)
    if create.or_replace and create.read_only:
        raise SqlError("found OR REPLACE for a SOURCE, expected DROP before CREATE")
    source = definitions.create_source(create, catalog, text, registered, defaults)
    return Analysis(_defined(create, catalog, source))


def _create_as_select(
    create: s.CreateAsSelect, catalog: Catalog, text: str, defaults: DefaultFormats
) -> Analysis:
    if create.if_not_exists and create.name in catalog.sources:
        return Analysis(catalog)
    plan = definitions.create_as_select(create, catalog, text, defaults)
    assert isinstance(plan.root, Sink)
    return Analysis(_defined(create, catalog, plan.root.target), plan)


def _types_and_functions(statement: s.Statement, catalog: Catalog) -> Catalog:
    match statement:
        case s.CreateType(name, type_, if_not_exists):
            if name in catalog.types:
                if if_not_exists:
                    return catalog
                raise SqlError(f"found the type {name}, which exists already, expected a new name")
            return catalog.with_type(name, catalog.resolved(type_))
        case s.DropType(name, if_exists):
            if name not in catalog.types and not if_exists:
                raise SqlError(f"found no type {name} to drop, expected one that CREATE TYPE made")
            return catalog.with_type(name, None)
        case s.CreateFunction():
            return _create_function(statement, catalog)
        case s.DropFunction(name, if_exists):
            return _drop_function(name, if_exists, catalog)
    return catalog


def _own(function: Function | None) -> bool:
    return function is not None and function.file is not None


def _create_function(create: s.CreateFunction, catalog: Catalog) -> Catalog:
    old = catalog.functions.get(create.name)
    if old is not None and not (create.or_replace and _own(old)):
        what = "defined already, expected OR REPLACE" if _own(old) else "built in, expected another name"
        raise SqlError(f"found the function {create.name}, which is {what}")
    parameters: list[SqlType] = [catalog.resolved(type_) for _, type_ in create.parameters]
    signature = Signature(tuple(map(Parameter, parameters)), catalog.resolved(create.result))
    made = Function(create.name, FunctionKind.SCALAR, f"Defined in {create.file}", (signature,), create.file)
    return catalog.with_function(create.name, made)


def _drop_function(name: str, if_exists: bool, catalog: Catalog) -> Catalog:
    found = catalog.functions.get(name)
    if not _own(found):
        if found is None and if_exists:
            return catalog
        raise SqlError(f"found no function {name} to drop, expected one that CREATE FUNCTION made")
    return catalog.with_function(name, None)
