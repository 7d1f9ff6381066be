"""The expansion of SELECT items: stars are expanded, and each column gets a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.analysis.calls import column, located
from penstock.sql.analysis.expression_types import Types
from penstock.sql.analysis.scope import Scope
from penstock.sql.catalog import SYSTEM_COLUMNS, Role
from penstock.sql.language.errors import SqlError
from penstock.sql.language.statements import Query, SelectItem
from penstock.sql.language.types import Struct


@dataclass(frozen=True)
class Selected:
    """A selected column. ``expression`` has the plan's names; ``written`` is the original expression."""

    name: str
    expression: exp.Expr
    written: exp.Expr


class Selection:
    """The SELECT items of one query. ``new_keys`` are keys that no source has; `*` includes them too."""

    def __init__(
        self, query: Query, scope: Scope, types: Types, new_keys: Sequence[str], *, persistent: bool
    ) -> None:
        self._new_keys = new_keys
        self._query = query
        self._scope = scope
        self._types = types
        self._persistent = persistent
        self._generated = scope.generated_names()
        self._names: set[str] = set()

    def columns(self) -> tuple[Selected, ...]:
        """Expand all items in order. Raises a SqlError for a duplicate or reserved name."""
        found: list[Selected] = []
        for item in self._query.items:
            for selected in self._item(item):
                if selected.name in self._names:
                    raise self._error(
                        f"found two columns with the name {selected.name}, expected an alias", item
                    )
                self._names.add(selected.name)
                found.append(selected)
        return tuple(found)

    def _error(self, problem: str, item: SelectItem) -> SqlError:
        return located(SqlError(problem), item.expression, self._scope.text)

    def _item(self, item: SelectItem) -> Iterator[Selected]:
        node = item.expression
        if isinstance(node, exp.Star):
            for name in self._new_keys:
                yield Selected(name, column(name, node), node)
            for source in self._scope.sources:
                yield from self._all_of(source.alias, node)
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            yield from self._all_of(node.table, node)
        elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star):
            yield from self._fields(item, node)
        else:
            yield Selected(self._name(item), self._scope.resolved(node), node)

    def _all_of(self, alias: str, node: exp.Expr) -> Iterator[Selected]:
        try:
            source = self._scope.source(alias)
        except SqlError as error:
            raise located(error, node, self._scope.text) from None
        columns = source.selected
        if self._query.partition_by:  # the old key becomes a value after the other values
            columns = tuple(sorted(columns, key=lambda each: each.role is Role.KEY))
        for each in columns:
            if each.name in SYSTEM_COLUMNS and self._persistent and not self._query.joins:
                continue  # the key already carries the window's bounds
            name = source.inner(each.name)
            yield Selected(name, column(name, node), exp.column(each.name, table=alias))

    def _fields(self, item: SelectItem, node: exp.Dot) -> Iterator[Selected]:
        struct = self._scope.resolved(node.this)
        found = self._types.of(struct)
        if not isinstance(found, Struct):
            raise self._error(f"found ->* of {found or 'NULL'}, expected a STRUCT", item)
        for name, _ in found.fields:
            field = exp.Dot(this=struct.copy(), expression=exp.Identifier(this=name, quoted=False))
            yield Selected(name, field, field)

    def _name(self, item: SelectItem) -> str:
        node = item.expression
        if item.alias is not None:
            if item.alias in SYSTEM_COLUMNS:
                raise self._error(f"found the alias {item.alias}, expected a name that is not reserved", item)
            return item.alias
        if isinstance(node, exp.Column):
            return self._column_name(item, node)
        if isinstance(node, exp.Dot):
            return self._generated.field(node.expression.name)
        return self._generated.expression()

    def _column_name(self, item: SelectItem, node: exp.Column) -> str:
        name = node.name
        if node.table and self._scope.is_ambiguous(name):
            return f"{node.table}_{name}"
        if name in SYSTEM_COLUMNS and self._persistent:
            raise self._error(f"found {name}, whose name is reserved, expected an alias for it", item)
        return name
