"""A random table, its topic of changes, and the table that a query keeps in step with it despite crashes."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
from change_records import Change, SourceTable, without_nulls
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock.spark import Edit, TargetTable, apply_changes, read_changes


class CrashingTable:
    """A table whose commit may be the last that its query does: the checkpoint does not learn of it."""

    def __init__(self, table: TargetTable) -> None:
        self.table = table
        self.crashes_after = 0

    def columns(self) -> pa.Schema | None:
        return self.table.columns()

    def applied(self, writer: str) -> int | None:
        return self.table.applied(writer)

    def rows(self, column: str, values: pa.Array | None) -> pa.Table:
        return self.table.rows(column, values)

    def write(self, edit: Edit, writer: str, batch: int) -> None:
        self.table.write(edit, writer, batch)
        self.crashes_after -= 1
        if self.crashes_after == 0:
            raise InterruptedError("the query ends here")


class Mirror:
    """A random source table, its topic, and the table that a query keeps in step with it."""

    def __init__(
        self,
        spark: SparkSession,
        servers: str,
        topic: str,
        table: TargetTable,
        checkpoint: Path,
        with_truncates: bool = False,
    ) -> None:
        seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
        print(f"PENSTOCK_SEED={seed}")
        self.random = random.Random(seed)
        self.source = SourceTable(self.random, with_truncates=with_truncates)
        self.table = CrashingTable(table)
        self.changes: list[Change] = []
        self._spark, self._servers, self._topic, self._checkpoint = spark, servers, topic, checkpoint
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})

    def change(self, steps: int) -> None:
        for _ in range(steps):
            for change in self.source.step():
                self._producer.produce(self._topic, change.value, key=change.record_key)
                self.changes.append(change)
        assert self._producer.flush(30) == 0

    def stream(self, batch_size: int) -> DataFrame:
        return read_changes(
            self._spark.readStream.format("penstock")
            .option("kafka.bootstrap.servers", self._servers)
            .option("subscribe", self._topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(batch_size))
            .load()
        )

    def run(self, batch_size: int | None = None, crash_after: int | None = None, **options: Any) -> None:
        """Run the query until it has applied all that the topic has, with crashes in between.

        ``batch_size`` is the most records of a batch, and ``crash_after`` the batch whose commit is the first
        run's last; both are random if not given.
        """
        while True:
            self.table.crashes_after = crash_after or self.random.choice((0, 1, 2, 3))
            crash_after = None
            query = apply_changes(
                self.stream(batch_size or self.random.choice((9, 25, 1000))),
                self.table,
                keys="id",
                checkpoint_location=self._checkpoint,
                trigger={"availableNow": True},
                **options,
            )
            try:
                query.awaitTermination()
                return
            except StreamingQueryException as error:
                if "the query ends here" not in str(error):
                    raise

    def found(self) -> list[dict[str, Any]]:
        """Return the table's rows without nulls."""
        rows = self.table.rows("id", None).to_pylist()
        return [without_nulls(row) for row in rows]
