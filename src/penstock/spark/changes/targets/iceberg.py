"""Tables of Iceberg, read and written by the driver with pyiceberg, which needs no jar in Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.arrow.table_rows import fitted, identities
from penstock.extras import needs_extra
from penstock.spark.changes.targets.table import Edit

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

APPLIED: Final = "penstock.applied."
"""Begins the table property with the last batch of a query; snapshots could expire, properties don't."""

RETRIES: Final = "commit.retry.num-retries"
ATTEMPTS: Final = 10
"""Commits that are tried; each begins with the table as it is then."""


class IcebergTarget:
    """An Iceberg table in a catalog.

    ``identifier`` is ``catalog.namespace.table``; pyiceberg's configuration file or environment describe the
    catalog, or ``catalog_properties`` do. A table that does not exist yet is created without partitions.
    """

    def __init__(self, identifier: str, *, catalog_properties: Mapping[str, str] | None = None) -> None:
        with needs_extra("iceberg", "an Iceberg table"):
            from pyiceberg.catalog import load_catalog
        catalog, _, self._name = identifier.partition(".")
        if "." not in self._name:
            raise ValueError(f"found the Iceberg table {identifier!r}: expected catalog.namespace.table")
        self._catalog = load_catalog(catalog, **(catalog_properties or {}))

    def columns(self) -> pa.Schema | None:
        table = self._open()
        return None if table is None else table.schema().as_arrow()

    def applied(self, writer: str) -> int | None:
        table = self._open()
        return None if table is None else last_batch(table, writer)

    def rows(self, column: str, values: pa.Array | None) -> pa.Table:
        table = self._open()
        assert table is not None, "only a table that exists has rows"
        return _rows(table, column, values)

    def write(self, edit: Edit, writer: str, batch: int) -> None:
        from pyiceberg.exceptions import CommitFailedException

        for attempt in range(ATTEMPTS):
            table = self._open() or self._create(edit.put.schema)
            if is_applied(table, writer, batch):
                return  # by a driver that was replaced, or by a commit whose answer was lost
            # pyiceberg would repeat a commit by itself, though the table has the batch by then, or rows of
            # another writer that this edit replaces. This is set in memory only.
            table.metadata.properties[RETRIES] = "0"
            try:
                self._commit(table, edit, writer, batch)
                return
            except CommitFailedException:
                if attempt + 1 == ATTEMPTS:
                    raise
                time.sleep(0.01 * (1 << attempt))

    def _commit(self, table: Table, edit: Edit, writer: str, batch: int) -> None:
        from pyiceberg.expressions import AlwaysTrue

        column = edit.identity[0]
        touched = pa.concat_tables([edit.put.select([column]), edit.removed.select([column])])
        values = touched[column].combine_chunks()
        with table.transaction() as transaction:
            added = set(edit.put.column_names) - set(table.schema().as_arrow().names)
            if added:
                with transaction.update_schema() as update:
                    update.union_by_name(edit.put.schema)
            columns = transaction.table_metadata.schema().as_arrow()
            put = fitted(edit.put, columns)
            if edit.everything:
                transaction.overwrite(put, AlwaysTrue())
            elif touched.num_rows:
                # The filter names only the identity's first column, so the rows that stay are written again.
                found = _rows(table, column, values)
                rows = pa.concat_tables([fitted(_without(found, edit), columns), put])
                if found.num_rows:
                    transaction.overwrite(rows, _among(column, values))
                else:
                    transaction.append(rows)
            transaction.set_properties({APPLIED + writer: str(batch)})

    def _open(self) -> Table | None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog.load_table(self._name)
        except NoSuchTableError:
            return None

    def _create(self, columns: pa.Schema) -> Table:
        self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        return self._catalog.create_table_if_not_exists(self._name, columns)


def last_batch(table: Table, writer: str) -> int | None:
    """Return the id of the last batch of a query that a table has; None if there is none."""
    found = table.properties.get(APPLIED + writer)
    return None if found is None else int(found)


def is_applied(table: Table, writer: str, batch: int) -> bool:
    """Whether a table has a query's batch already."""
    last = last_batch(table, writer)
    return last is not None and last >= batch


def _rows(table: Table, column: str, values: pa.Array | None) -> pa.Table:
    scan = table.scan() if values is None else table.scan(row_filter=_among(column, values))
    return scan.to_arrow()


def _among(column: str, values: pa.Array) -> BooleanExpression:
    from pyiceberg.expressions import In

    return In(column, set(values.to_pylist()))


def _without(rows: pa.Table, edit: Edit) -> pa.Table:
    """Return the rows that an edit neither replaces nor removes."""
    touched = {*identities(edit.put, edit.identity), *identities(edit.removed, edit.identity)}
    stay = [each not in touched for each in identities(rows, edit.identity)]
    return rows.filter(pa.array(stay, pa.bool_()))
