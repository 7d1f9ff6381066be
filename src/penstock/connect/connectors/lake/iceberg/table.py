"""One Iceberg table: data files that are written first, and snapshots that add them with the offsets covered.

Each commit is based on one snapshot and refused if there is a newer one. It is then tried on the newer one,
with the same files, after a look at the offsets there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.arrow.table_rows import fitted, identities
from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connectors.lake.columns.widening import together, widened
from penstock.connect.connectors.lake.iceberg.offsets import Stored, stored_offsets, with_offsets
from penstock.connect.connectors.lake.iceberg.partitioning import partition_spec
from penstock.connect.connectors.lake.tables.changes import LastChanges, last_changes
from penstock.connect.connectors.lake.tables.lake_table import Covered, Staged, has_all
from penstock.connect.errors import ConnectError, DataError, RetriableError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

RETRIES: Final = "commit.retry.num-retries"
ATTEMPTS: Final = 10
"""Commits that are tried before the worker is asked to wait."""


@dataclass(frozen=True)
class IcebergOptions:
    """How a sink writes one table. With ``keys`` rows are replaced and removed, without them appended."""

    connector: str
    keys: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    creates: bool = False
    evolves: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


class IcebergTable:
    """A table of a catalog; ``name`` is namespace.table."""

    def __init__(self, catalog: Catalog, name: str, options: IcebergOptions) -> None:
        self._catalog = catalog
        self._name = name
        self._options = options
        self.evolves = self.widens = options.evolves

    def columns(self) -> pa.Schema | None:
        with retriable(self._name):
            table = self._latest()
            return None if table is None else table.schema().as_arrow()

    def offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        with retriable(self._name):
            table = self._latest()
            stored = {} if table is None else stored_offsets(table, self._options.connector)
        return {tp: stored[tp] for tp in partitions if tp in stored}

    def stage(self, rows: Sequence[pa.Table]) -> Staged:
        if self._options.keys:
            changes = last_changes(rows, self._options.keys)
            self._prepare(changes.put.schema)
            return Staged(changes, changes.row_count)
        every = together(rows)
        table = self._prepare(every.schema)
        from pyiceberg.io.pyarrow import (
            _dataframe_to_data_files,
        )  # the step that Table.append has before its commit

        every = self._fitted(table, every)
        with retriable(self._name):
            files = list(_dataframe_to_data_files(table.metadata, every, table.io))
        return Staged(files, every.num_rows)

    def commit(self, staged: Sequence[Staged], covered: Covered) -> None:
        commit = self._merge if self._options.keys else self._append

        def once(table: Table) -> None:
            stored = stored_offsets(table, self._options.connector)
            if not has_all(stored, covered):
                commit(table, [each.content for each in staged], self._properties(stored, covered))

        self._again_after_conflicts(once)

    # Schemas

    def _prepare(self, wanted: pa.Schema) -> Table:
        """Return the table with columns for all that is wanted, after adding them or creating it."""
        with retriable(self._name):
            if self._latest() is None:
                self._create(wanted)

        def once(table: Table) -> None:
            present = table.schema().as_arrow()
            every = widened(present, wanted)
            # Without evolution, rows with further columns were refused, and values have to fit.
            if not self._options.evolves or every == _nullable(present):
                return
            with table.update_schema() as update:
                update.union_by_name(every)

        self._again_after_conflicts(once)
        return self._opened()

    def _create(self, columns: pa.Schema) -> None:
        if not self._options.creates:
            raise ConnectError(
                f"there is no Iceberg table {self._name}: set iceberg.tables.auto-create-enabled=true"
            )
        from pyiceberg.schema import assign_fresh_schema_ids

        schema = assign_fresh_schema_ids(self._catalog._convert_schema_if_needed(columns))
        self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        self._catalog.create_table_if_not_exists(
            self._name,
            schema,
            partition_spec=partition_spec(self._options.partition_by, schema),
            properties=dict(self._options.properties),
        )

    def _fitted(self, table: Table, rows: pa.Table) -> pa.Table:
        try:
            return fitted(rows, table.schema().as_arrow())
        except ValueError as error:
            raise DataError(f"{self._name}: {error}") from error

    # Commits

    def _append(self, table: Table, staged: Sequence[list[DataFile]], properties: dict[str, str]) -> None:
        with (
            table.transaction() as transaction,
            transaction.update_snapshot(snapshot_properties=properties).fast_append() as append,
        ):
            for files in staged:
                for file in files:
                    append.append_data_file(file)

    def _merge(self, table: Table, staged: Sequence[LastChanges], properties: dict[str, str]) -> None:
        """Write the files again that have one of the keys.

        The filter names only the first key, so rows that stay are read and written with the new ones.
        """
        from pyiceberg.expressions import In

        keys = self._options.keys
        put = together([each.put for each in staged])
        touched = {identity for each in staged for rows in each for identity in identities(rows, keys)}
        among = In(keys[0], {identity[0] for identity in touched})
        found = table.scan(row_filter=among).to_arrow()
        stays = [identity not in touched for identity in identities(found, keys)]
        kept = found.filter(pa.array(stays, pa.bool_()))
        columns = table.schema().as_arrow()
        rows = pa.concat_tables([fitted(kept, columns), self._fitted(table, put)])
        with table.transaction() as transaction:
            if found.num_rows:
                transaction.overwrite(rows, among, snapshot_properties=properties)
            else:
                transaction.append(rows, snapshot_properties=properties)

    def _properties(self, stored: Stored, covered: Covered) -> dict[str, str]:
        added = {tp: offsets.stop for tp, offsets in covered.items()}
        return with_offsets(self._options.connector, stored, added)

    def _again_after_conflicts(self, once: Callable[[Table], None]) -> None:
        """Run an action on the newest snapshot, again if another commit was in its way."""
        from pyiceberg.exceptions import CommitFailedException

        for attempt in range(ATTEMPTS):
            with retriable(self._name):
                try:
                    table = self._opened()
                    # pyiceberg would try again by itself, with the offsets of the older snapshot. This is set
                    # in memory only.
                    table.metadata.properties[RETRIES] = "0"
                    once(table)
                    return
                except CommitFailedException:
                    if attempt + 1 == ATTEMPTS:
                        raise
                    time.sleep(0.01 * (1 << attempt))

    def _opened(self) -> Table:
        table = self._latest()
        if table is None:
            raise ConnectError(f"the Iceberg table {self._name} was removed while the sink wrote to it")
        return table

    def _latest(self) -> Table | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self._catalog.load_table(self._name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None


def _nullable(columns: pa.Schema) -> pa.Schema:
    return widened(columns, columns)


@contextmanager
def retriable(name: str) -> Iterator[None]:
    """Turn errors of storage, of catalogs and of other writers into RetriableError."""
    from pyiceberg import exceptions as found

    passing: tuple[type[Any], ...] = (
        *(found.CommitFailedException, found.CommitStateUnknownException, found.ServiceUnavailableError),
        *(found.ServerError, found.TooManyRequestsError, found.WaitingForLockException, OSError),
    )
    with suppress(ModuleNotFoundError):  # only catalogs in SQL need it
        from sqlalchemy.exc import OperationalError

        passing = (*passing, OperationalError)
    try:
        yield
    except passing as error:
        raise RetriableError(f"{name}: {error}") from error
