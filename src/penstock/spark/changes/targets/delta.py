"""Tables of Delta Lake, read and written by the driver with delta-rs, which needs no jar in Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.dataset as ds

from penstock.extras import needs_extra
from penstock.spark.changes.row_types import quoted
from penstock.spark.changes.targets.table import Edit

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_CHANGE: Final = "__change"
_PUT: Final = "put"
_REMOVED: Final = "removed"


class DeltaTarget:
    """A Delta table at a path or URL.

    ``storage_options`` are delta-rs's, for object stores. ``partition_by`` names the columns by which a table
    is partitioned that does not exist yet. A commit carries the query's id and the batch's as Delta's
    ``txn`` action, which Spark's txnAppId and txnVersion write too.
    """

    def __init__(
        self,
        path: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
    ) -> None:
        with needs_extra("delta", "a Delta table"):
            import deltalake  # noqa: F401
        self.path = path
        self._storage_options = dict(storage_options or {})
        self._partition_by = list(partition_by)

    def columns(self) -> pa.Schema | None:
        table = self._open()
        return None if table is None else pa.schema(table.schema().to_arrow())

    def applied(self, writer: str) -> int | None:
        table = self._open()
        return None if table is None else table.transaction_version(writer)

    def rows(self, column: str, values: pa.Array | None) -> pa.Table:
        table = self._open()
        assert table is not None, "only a table that exists has rows"
        matching = None if values is None else ds.field(column).isin(values)
        return table.to_pyarrow_dataset().to_table(filter=matching)

    def write(self, edit: Edit, writer: str, batch: int) -> None:
        table = self._open() or self._create(edit.put.schema)
        self._add_columns(table, edit.put.schema)
        if edit.everything:
            self._replace(edit, _applied(writer, batch))
        else:
            self._merge(edit, _applied(writer, batch))

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(self.path, storage_options=self._storage_options)
        except TableNotFoundError:
            return None

    def _create(self, columns: pa.Schema) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable.create(
            self.path,
            columns,
            mode="ignore",
            partition_by=self._partition_by or None,
            storage_options=self._storage_options,
        )

    def _add_columns(self, table: DeltaTable, wanted: pa.Schema) -> None:
        """Add columns in a commit of its own: if the batch's commit fails, they are just there already."""
        from deltalake import Field

        present = set(pa.schema(table.schema().to_arrow()).names)
        added = [field for field in wanted if field.name not in present]
        if added:
            table.alter.add_columns([Field.from_arrow(field) for field in added])

    def _replace(self, edit: Edit, applied: CommitProperties) -> None:
        from deltalake import write_deltalake

        write_deltalake(
            self.path,
            edit.put,
            mode="overwrite",
            storage_options=self._storage_options,
            commit_properties=applied,
        )

    def _merge(self, edit: Edit, applied: CommitProperties) -> None:
        table = self._open()
        assert table is not None, "the table was created above"
        put = edit.put.append_column(_CHANGE, _repeated(_PUT, edit.put.num_rows))
        removed = edit.removed.append_column(_CHANGE, _repeated(_REMOVED, edit.removed.num_rows))
        changes = pa.concat_tables([put, removed], promote_options="default")
        same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in edit.identity)
        values = {quoted(name): f"s.{quoted(name)}" for name in edit.put.column_names}
        merger = table.merge(changes, same, source_alias="s", target_alias="t", commit_properties=applied)
        merger = merger.when_matched_delete(f"s.{_CHANGE} = '{_REMOVED}'").when_matched_update(values)
        merger.when_not_matched_insert(values, predicate=f"s.{_CHANGE} = '{_PUT}'").execute()


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text), count)


def _applied(writer: str, batch: int) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction(writer, batch)])
