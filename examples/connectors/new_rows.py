"""A source for SQLite: the new rows of a table as records, by a column ``id`` that only grows."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.connect import ConfigDef, ConfigType, SourceRecord, SourceTask


class NewRows(SourceTask):
    definition = (
        ConfigDef()
        .define("database", ConfigType.STRING, doc="The file of the database.")
        .define("table", ConfigType.STRING, doc="The table to read.")
        .define("topic", ConfigType.STRING, doc="The topic to write to.")
    )
    exactly_once = True

    def start(self, config: Mapping[str, Any]) -> None:
        self.database = sqlite3.connect(config["database"])
        self.database.row_factory = sqlite3.Row
        self.table, self.topic = config["table"], config["topic"]
        self.partition = {"database": config["database"], "table": self.table}
        stored = self.context.offset(self.partition)
        self.last_id = stored["id"] if stored else 0

    def poll(self) -> Sequence[SourceRecord]:
        query = f'SELECT * FROM "{self.table}" WHERE id > ? ORDER BY id LIMIT 1000'
        rows = [dict(row) for row in self.database.execute(query, (self.last_id,))]
        if rows:
            self.last_id = rows[-1]["id"]
        return [self.record(row) for row in rows]

    def record(self, row: Mapping[str, Any]) -> SourceRecord:
        place = {"source_partition": self.partition, "source_offset": {"id": row["id"]}}
        return SourceRecord(topic=self.topic, value=row, **place)

    def stop(self) -> None:
        self.database.close()
