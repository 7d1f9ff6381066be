"""A sink for SQLite: the last value of each key as a row of a table; a null value deletes the row."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.connect import ConfigDef, ConfigType, SinkRecord, SinkTask


class KeepRows(SinkTask):
    definition = ConfigDef().define("database", ConfigType.STRING, doc="The file of the database.")

    def start(self, config: Mapping[str, Any]) -> None:
        self.database = sqlite3.connect(config["database"])
        self.database.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT)")

    def put(self, records: Sequence[SinkRecord]) -> None:
        with self.database:  # one transaction; a batch that is put again writes the same rows
            for record in records:
                if record.value is None:
                    self.database.execute("DELETE FROM kept WHERE key = ?", (record.key,))
                else:
                    row = record.key, json.dumps(record.value)
                    self.database.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", row)

    def stop(self) -> None:
        self.database.close()
