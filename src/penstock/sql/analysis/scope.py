"""The resolution of column names in a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.analysis.calls import located, with_types
from penstock.sql.analysis.generated_names import GeneratedNames
from penstock.sql.analysis.plan import Source
from penstock.sql.catalog import Catalog, Column, DataSource, Role
from penstock.sql.language.errors import SqlError
from penstock.sql.language.keywords import quoted
from penstock.sql.language.statements import Query, Relation


@dataclass(frozen=True)
class ScopedSource:
    """A source of a query. In the plan of a join ``prefix`` is prepended to its columns' names."""

    alias: str
    source: DataSource
    prefix: str
    start: int

    def inner(self, name: str) -> str:
        return f"{self.prefix}{name}"

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns that the query may name, with the source's names."""
        return (*self.source.columns, *self.source.pseudo_columns)

    @property
    def selected(self) -> tuple[Column, ...]:
        """The columns that `*` expands to."""
        windows = (each for each in self.source.pseudo_columns if each.name.startswith("WINDOW"))
        keys = tuple(each for each in self.source.columns if each.role is Role.KEY)
        return (*keys, *windows, *(each for each in self.source.columns if each.role is not Role.KEY))

    def step(self) -> Source:
        columns = tuple(
            Column(self.inner(each.name), each.type, each.role, each.header) for each in self.columns
        )
        return Source(self.source, self.prefix, columns)


@dataclass(frozen=True)
class Scope:
    """The sources of one query. ``synthetic`` are columns that the plan adds, which no source has."""

    sources: tuple[ScopedSource, ...]
    text: str
    catalog: Catalog
    synthetic: frozenset[str] = frozenset()

    @classmethod
    def of(cls, query: Query, catalog: Catalog, text: str) -> Scope:
        relations = [query.source, *(join.relation for join in query.joins)]
        found: list[ScopedSource] = []
        for relation in relations:
            alias = relation.known_as
            if alias in (each.alias for each in found):
                raise SqlError(f"found the source {alias} twice, expected different aliases").at(
                    text, relation.start
                )
            prefix = f"{alias}_" if query.joins else ""
            found.append(ScopedSource(alias, _source(catalog, relation, text), prefix, relation.start))
        return cls(tuple(found), text, catalog)

    def generated_names(self) -> GeneratedNames:
        """A generator of names that no source has."""
        return GeneratedNames(column.name for each in self.sources for column in each.source.columns)

    @property
    def synthetic_key(self) -> str:
        """The name of a key column that neither side of a join has."""
        return self.generated_names().field("ROWKEY")

    def source(self, alias: str) -> ScopedSource:
        for each in self.sources:
            if each.alias == alias:
                return each
        raise self._no_source(alias, "")

    def _no_source(self, alias: str, field: str) -> SqlError:
        known = ", ".join(each.alias for each in self.sources)
        problem = f"found the source {alias}, expected one in FROM: {known}"
        if field and any(each.source.column(alias) is not None for each in self.sources):
            problem += f"; a field of the column {alias} is {quoted(alias)}->{quoted(field)}"
        return SqlError(problem, found=alias)

    def find(self, node: exp.Column) -> tuple[ScopedSource, Column]:
        """Find the source and column that a name refers to."""
        if node.table and node.table not in (each.alias for each in self.sources):
            raise self._no_source(node.table, node.name)
        candidates: Sequence[ScopedSource] = [self.source(node.table)] if node.table else self.sources
        found = [
            (source, column) for source in candidates for column in source.columns if column.name == node.name
        ]
        if len(found) > 1:
            aliases = " or ".join(f"{source.alias}.{node.name}" for source, _ in found)
            raise SqlError(f"found {node.name}, which is in several sources, expected {aliases}")
        if not found:
            where = " or ".join(source.alias for source in candidates)
            known = ", ".join(column.name for source in candidates for column in source.source.columns)
            raise SqlError(
                f"found no column {node.name} in {where}, expected one of {known}", found=node.name
            )
        return found[0]

    def is_ambiguous(self, name: str) -> bool:
        """Whether several sources have a column of that name."""
        return sum(any(column.name == name for column in each.columns) for each in self.sources) > 1

    def resolved(self, node: exp.Expr) -> exp.Expr:
        """Copy an expression with the plan's column names, and with custom types resolved.

        Raises a SqlError with its place for an unknown name.
        """
        made = with_types(node, self.catalog, self.text)
        for column in list(made.find_all(exp.Column)):
            if not column.table and column.name in self.synthetic | lambda_names(column):
                continue
            if column.name in self.synthetic and column.table in (each.alias for each in self.sources):
                column.set("table", None)  # a bound of the query's own window
                continue
            try:
                source, meant = self.find(column)
            except SqlError as error:
                raise located(error, column, self.text) from None
            replacement = exp.Column(this=exp.Identifier(this=source.inner(meant.name), quoted=False))
            replacement.meta.update(column.meta)
            if column is made:
                return replacement
            column.replace(replacement)
        return made

    def used(self, node: exp.Expr) -> set[str]:
        """The aliases of the sources that an unresolved expression reads."""
        return {
            self.find(column)[0].alias
            for column in node.find_all(exp.Column)
            if column.table or column.name not in lambda_names(column)
        }


def _source(catalog: Catalog, relation: Relation, text: str) -> DataSource:
    try:
        return catalog.source(relation.name)
    except SqlError as error:
        raise error.at(text, relation.start) from None


def lambda_names(node: exp.Expr) -> set[str]:
    """The parameters of the lambdas around a node."""
    return set(_parameters(node))


def _parameters(node: exp.Expr) -> Iterator[str]:
    around = node.parent
    while around is not None:
        if isinstance(around, exp.Lambda):
            yield from (name.name for name in around.expressions)
        around = around.parent
