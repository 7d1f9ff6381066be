"""The server's catalog, as far as records depend on it: types, and the columns and keys of tables. Pure.

Replication messages carry each column's type and modifier, but not whether it may be null, its default or the
primary key. Two queries read those; `Catalog.of_rows` takes their results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

TYPES_QUERY: Final = """
select t.oid::int8, t.typname::text, n.nspname::text, t.typtype::text, t.typcategory::text, t.typelem::int8,
       t.typbasetype::int8, t.typtypmod,
       (select array_agg(e.enumlabel::text order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid)
from pg_type t join pg_namespace n on n.oid = t.typnamespace
where t.typtype <> 'p'
order by t.oid"""
"""All types but pseudo-types: oid, name, schema, kind, category, element, base type, its modifier, labels."""

_RELATIONS: Final = """
select c.oid::int8, n.nspname::text, c.relname::text,
       (select json_agg(json_build_array(a.attname, a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
                        order by a.attnum)
        from pg_attribute a left join pg_attrdef d
             on d.adrelid = a.attrelid and d.adnum = a.attnum and a.attgenerated = ''
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
       (select array_agg(a.attname::text order by k.place)
        from unnest(i.indkey) with ordinality k(number, place)
        join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number where k.place <= i.indnkeyatts)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
left join lateral (
    select x.indkey, x.indnkeyatts from pg_index x
    where x.indrelid = c.oid and x.indisunique and x.indisvalid and x.indpred is null and x.indexprs is null
    order by x.indisprimary desc, x.indexrelid limit 1) i on true
"""
RELATIONS_QUERY: Final = f"""{_RELATIONS}
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
order by c.oid"""
"""All tables: oid, schema, name, [column, NOT NULL, default] of each column, columns of the key.

The key is the primary key, or the oldest unique index that covers all rows.
"""

RELATION_QUERY: Final = f"{_RELATIONS} where c.oid = %s"
"""The table with an oid, as RELATIONS_QUERY has it."""


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A type; its `kind` is pg_type.typtype: b base, d domain, e enum, r range, m multirange, c row."""

    oid: int
    name: str
    schema: str
    kind: str
    category: str
    element_oid: int
    base_oid: int
    base_modifier: int
    labels: tuple[str, ...]

    @property
    def is_array(self) -> bool:
        """Whether values are arrays; they then have elements of the type `element_oid`."""
        return self.category == "A" and self.element_oid != 0


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column as the catalog knows it. `default` is the expression in SQL."""

    name: str
    not_null: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table as the catalog knows it, at the time of the query."""

    oid: int
    schema: str
    name: str
    columns: Mapping[str, ColumnFacts]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Types and tables by their oids."""

    types: Mapping[int, PostgresType]
    tables: Mapping[int, TableFacts]

    @staticmethod
    def of_rows(types: Iterable[Sequence[Any]], relations: Iterable[Sequence[Any]]) -> Catalog:
        """The catalog from the rows of TYPES_QUERY and RELATIONS_QUERY."""
        made = {row[0]: _type(*row) for row in types}
        return Catalog(made, {row[0]: _table(*row) for row in relations})


def _type(oid: int, name: str, schema: str, kind: str, category: str, *more: Any) -> PostgresType:
    element, base, modifier, labels = more
    return PostgresType(oid, name, schema, kind, category, element, base, modifier, tuple(labels or ()))


def _table(
    oid: int, schema: str, name: str, columns: Sequence[Any] | None, key: Sequence[str] | None
) -> TableFacts:
    by_name = {each[0]: ColumnFacts(*each) for each in columns or ()}
    return TableFacts(oid, schema, name, by_name, tuple(key or ()))
