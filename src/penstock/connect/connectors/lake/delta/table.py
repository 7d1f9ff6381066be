"""One Delta table: data files that are written first, and commits that add them with the offsets covered.

Delta's log has, for each application id, the version of the last transaction. Each partition of a topic is an
application here, and its version is the next offset. Delta refuses a commit if another one with the same
application id came in between, so that a task that lives on after it was replaced cannot write twice. Tasks
with other partitions only append, and never conflict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.arrow.table_rows import fitted
from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connectors.lake.columns.widening import paths, together, widened
from penstock.connect.connectors.lake.delta.data_files import DataFile, written_files
from penstock.connect.connectors.lake.tables.changes import LastChanges, last_changes
from penstock.connect.connectors.lake.tables.lake_table import Covered, Staged, has_all
from penstock.connect.errors import ConnectError, DataError, RetriableError

if TYPE_CHECKING:
    from deltalake import CommitProperties
    from deltalake import DeltaTable as OpenTable

ATTEMPTS: Final = 10
"""Commits that are tried before the worker is asked to wait; each begins with the table as it is then."""
UNSUPPORTED: Final = ("delta.columnMapping.mode", "delta.constraints.")
"""Begin the names of table properties that rule out files written beside delta-rs."""
_IS_PUT: Final = "__penstock_is_put"


@dataclass(frozen=True)
class DeltaOptions:
    """How a sink writes its tables. With ``keys`` rows are replaced and removed, without them appended."""

    app_id: str
    keys: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    creates: bool = True
    evolves: bool = True
    storage: Mapping[str, str] = field(default_factory=dict)


class DeltaTable:
    """A table at a path or URL."""

    widens = False  # delta-rs cannot change the type of a column

    def __init__(self, location: str, options: DeltaOptions) -> None:
        self._location = location
        self._options = options
        self._table: OpenTable | None = None
        self.evolves = options.evolves

    def columns(self) -> pa.Schema | None:
        with retriable(self._location):
            table = self._latest()
            return None if table is None else pa.schema(table.schema().to_arrow())

    def offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        with retriable(self._location):
            table = self._latest()
            if table is None:
                return {}
            found = {tp: table.transaction_version(self._app_id(tp)) for tp in partitions}
        return {tp: version for tp, version in found.items() if version is not None}

    def stage(self, rows: Sequence[pa.Table]) -> Staged:
        if self._options.keys:
            changes = last_changes(rows, self._options.keys)
            table = self._prepare(changes.put.schema)
            changes = changes._replace(put=self._fitted(table, changes.put))
            return Staged(changes, changes.row_count)
        every = together(rows)
        table = self._prepare(every.schema)
        every = self._fitted(table, every)
        with retriable(self._location):
            files = written_files(table, every, self._options.storage)
        return Staged(files, every.num_rows)

    def commit(self, staged: Sequence[Staged], covered: Covered) -> None:
        commit = self._merge if self._options.keys else self._append

        def once(table: OpenTable) -> None:
            if has_all({tp: table.transaction_version(self._app_id(tp)) or 0 for tp in covered}, covered):
                return
            commit(table, [each.content for each in staged], self._applied(covered))

        self._again_after_conflicts(once)

    # Schemas

    def _prepare(self, wanted: pa.Schema) -> OpenTable:
        """Return the table with columns for all that is wanted, after adding them or creating it."""

        def once(table: OpenTable) -> None:
            present = pa.schema(table.schema().to_arrow())
            added = paths(widened(present, wanted)) - paths(present)
            if not added:
                return
            if not self._options.evolves:
                raise DataError(
                    f"{self._location} lacks columns: set delta.schema.evolution=true to add {added}"
                )
            from deltalake import write_deltalake

            # Types that are only wider stay as they are: values have to fit them.
            write_deltalake(table, wanted.empty_table(), mode="append", schema_mode="merge")

        with retriable(self._location):
            if self._latest() is None:
                self._create(wanted)
        self._again_after_conflicts(once)
        table = self._opened()
        self._require_plain(table)
        return table

    def _create(self, columns: pa.Schema) -> None:
        if not self._options.creates:
            raise ConnectError(f"there is no Delta table at {self._location}: set delta.auto.create=true")
        absent = [name for name in self._options.partition_by if name not in columns.names]
        if absent:
            raise ConnectError(
                f"{self._location} cannot be partitioned by {absent}: the records have {columns.names}"
            )
        if not set(columns.names).difference(self._options.partition_by):
            raise ConnectError(
                f"{self._location} cannot be partitioned by all of its columns, found {columns.names}"
            )
        from deltalake import DeltaTable as Table

        Table.create(
            self._location,
            columns,
            mode="ignore",
            partition_by=list(self._options.partition_by) or None,
            storage_options=dict(self._options.storage),
        )

    def _fitted(self, table: OpenTable, rows: pa.Table) -> pa.Table:
        try:
            return fitted(rows, pa.schema(table.schema().to_arrow()))
        except ValueError as error:
            raise DataError(f"{self._location}: {error}") from error

    def _require_plain(self, table: OpenTable) -> None:
        for name, value in table.metadata().configuration.items():
            if name.startswith(UNSUPPORTED) and value != "none":
                raise ConnectError(
                    f"{self._location} has the property {name}={value}, which the sink cannot keep"
                )

    # Commits

    def _append(self, table: OpenTable, staged: Sequence[list[DataFile]], applied: CommitProperties) -> None:
        from deltalake.transaction import AddAction

        actions = [
            AddAction(
                path=file.path,
                size=file.size,
                partition_values=dict(file.partition_values),
                modification_time=file.modified_ms,
                data_change=True,
                stats=file.stats,
            )
            for files in staged
            for file in files
        ]
        table.create_write_transaction(
            actions,
            "append",
            table.schema(),
            list(table.metadata().partition_columns),
            commit_properties=applied,
        )

    def _merge(self, table: OpenTable, staged: Sequence[LastChanges], applied: CommitProperties) -> None:
        put = together([each.put for each in staged])
        removed = together([each.removed for each in staged])
        marked = [
            rows.append_column(_IS_PUT, pa.repeat(pa.scalar(is_put), rows.num_rows))
            for rows, is_put in ((put, True), (removed, False))
        ]
        source = pa.concat_tables(marked, promote_options="default")
        same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in self._options.keys)
        values = {quoted(name): f"s.{quoted(name)}" for name in put.column_names}
        merger = table.merge(source, same, source_alias="s", target_alias="t", commit_properties=applied)
        merger = merger.when_matched_delete(f"NOT s.{_IS_PUT}").when_matched_update(values)
        merger.when_not_matched_insert(values, predicate=f"s.{_IS_PUT}").execute()

    def _applied(self, covered: Covered) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        done = [Transaction(self._app_id(tp), offsets.stop) for tp, offsets in covered.items()]
        return CommitProperties(app_transactions=done, max_commit_retries=ATTEMPTS)

    def _again_after_conflicts(self, once: Callable[[OpenTable], None]) -> None:
        """Run an action on the newest version of the table, again if another commit was in its way."""
        from deltalake.exceptions import CommitFailedError

        for attempt in range(ATTEMPTS):
            with retriable(self._location):
                table = self._opened()
                try:
                    once(table)
                    return
                except CommitFailedError:
                    self._table = None
                    if attempt + 1 == ATTEMPTS:
                        raise
                    time.sleep(0.01 * (1 << attempt))

    def _opened(self) -> OpenTable:
        table = self._latest()
        if table is None:
            raise ConnectError(f"the Delta table at {self._location} was removed while the sink wrote to it")
        return table

    def _latest(self) -> OpenTable | None:
        from deltalake import DeltaTable as Table
        from deltalake.exceptions import TableNotFoundError

        if self._table is not None:
            self._table.update_incremental()
            return self._table
        try:
            self._table = Table(self._location, storage_options=dict(self._options.storage))
        except TableNotFoundError:
            return None
        return self._table

    def _app_id(self, tp: TopicPartition) -> str:
        return f"{self._options.app_id}-{tp.topic}-{tp.partition}"


def quoted(name: str) -> str:
    """Return a column's name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def retriable(location: str) -> Iterator[None]:
    """Raise RetriableError for errors of storage and of other writers, and DataError for those of columns."""
    from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError

    try:
        yield
    except SchemaMismatchError as error:
        raise DataError(f"{location}: {error}") from error
    except (CommitFailedError, OSError) as error:
        raise RetriableError(f"{location}: {error}") from error
    except DeltaError as error:
        raise ConnectError(f"{location}: {error}") from error
