"""Keeps many tables in step with the topics of one query, each topic with a table of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from os import PathLike, fspath
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.changes.batches import Batches, query_of
from penstock.spark.changes.envelope import KEY, ROW_TYPE
from penstock.spark.changes.settings import Settings
from penstock.spark.changes.targets.table import TargetTable


def apply_changes_of_topics(
    changes: DataFrame,
    table_of: Callable[[str], TargetTable],
    *,
    checkpoint_location: str | PathLike[str],
    on_batch: Callable[[Mapping[str, int]], object] = lambda counts: None,
    on_keyless: Callable[[str], object] | None = None,
    left_out: Collection[str] = (),
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start a streaming query that keeps a table for each topic, as `apply_changes` keeps one.

    ``changes`` is a stream of `read_keyed_changes`. ``table_of`` returns the table of a topic; it is called
    once for each. The keys of a table are the columns of the records' keys. After each batch, ``on_batch``
    gets the number of changes in each topic. A quiet topic costs nothing in a batch.

    The batch fails if a table has rows that another query has written: the changes cannot remove those
    whose deletes this query does not see.

    A topic whose rows have no keys is left out after ``on_keyless`` got its name; without that, the batch
    fails. It stays left out, as are the topics ``left_out``, because a table with only its later rows would
    be wrong. The caller remembers the topics for the query's next start.
    """
    writer = changes.writeStream.foreachBatch(_Topics(table_of, on_batch, on_keyless, left_out))
    writer = writer.option("checkpointLocation", fspath(checkpoint_location))
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


class _Topics:
    """The tables of one query, by topic."""

    def __init__(
        self,
        table_of: Callable[[str], TargetTable],
        on_batch: Callable[[Mapping[str, int]], object],
        on_keyless: Callable[[str], object] | None,
        left_out: Collection[str],
    ) -> None:
        self._table_of = table_of
        self._on_batch = on_batch
        self._on_keyless = on_keyless
        self._keyless = set(left_out)
        self._tables: dict[str, TargetTable] = {}
        self._keys: dict[str, tuple[str, ...]] = {}

    def __call__(self, batch: DataFrame, number: int) -> None:
        batch.persist()
        try:
            counts = {}
            for contents in sorted(_contents(batch), key=lambda each: each.topic):
                counts[contents.topic] = contents.changes
                changes = batch.where(F.col("topic") == contents.topic)
                self._apply(contents, changes, number)
        finally:
            batch.unpersist()
        self._on_batch(counts)

    def _apply(self, contents: _Contents, changes: DataFrame, number: int) -> None:
        topic = contents.topic
        if topic in self._keyless:
            return
        table = self._tables.get(topic)
        if table is None:
            table = self._table_of(topic)
            require_own(table, topic, query_of(changes))
            self._tables[topic] = table
        keys = self._keys.get(topic, ()) if contents.key is None else tuple(json.loads(contents.key))
        if not keys:
            if contents.rows:
                self._leave_out(topic)
                return
            columns = table.columns()
            if columns is None:
                return  # a truncate before the first row
            keys = (columns.names[0],)  # no row is looked for
        else:
            self._keys[topic] = keys
        Batches(table, Settings(keys=keys, row_schema=contents.row_type))(changes, number)

    def _leave_out(self, topic: str) -> None:
        if self._on_keyless is None:
            raise ValueError(f"the records of the topic {topic} have no keys: expected those of rows")
        self._on_keyless(topic)
        self._keyless.add(topic)


def require_own(table: TargetTable, topic: str, query: str) -> None:
    """Raise ValueError if a table has rows but none of this query's batches."""
    columns = table.columns()
    if columns is None or table.applied(query) is not None:
        return
    if table.rows(columns.names[0], None).num_rows:
        raise ValueError(
            f"the table for the topic {topic} has rows that another query has written: expected an empty "
            "table or none, or the checkpoint of the query that wrote them"
        )


class _Contents(NamedTuple):
    """A topic in a batch: its changes, those of rows, one key, and the type of rows if all have the same."""

    topic: str
    changes: int
    rows: int
    key: str | None
    row_type: str | None


def _contents(batch: DataFrame) -> list[_Contents]:
    """Count what each topic has, and find out its keys and types in the same job."""
    found = batch.groupBy("topic").agg(
        F.count("*").alias("changes"),
        F.count_if(F.col("op") != "t").alias("rows"),
        F.first(KEY, ignorenulls=True).alias(KEY),
        F.collect_set(ROW_TYPE).alias("types"),
        F.count(ROW_TYPE).alias("typed"),
    )
    return [
        _Contents(
            topic=row["topic"],
            changes=row["changes"],
            rows=row["rows"],
            key=row[KEY],
            row_type=row["types"][0] if len(row["types"]) == 1 and row["typed"] == row["changes"] else None,
        )
        for row in found.collect()
    ]
