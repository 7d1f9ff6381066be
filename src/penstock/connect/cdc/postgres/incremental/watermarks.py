"""Writes the marks around a chunk, so that the stream passes its moment also in a quiet database."""

from __future__ import annotations

import json
import logging
import uuid
from datetime import UTC, datetime
from typing import Any, Final

import psycopg
from psycopg import sql

from penstock.connect.cdc.signals import SignalSettings

log = logging.getLogger(__name__)

MESSAGE_PREFIX: Final = "penstock.watermark"
"""The prefix of the logical messages of this connector, which are never captured."""


class Watermarks:
    """The marks of one connector: rows of the signal table as Debezium's, or a logical message."""

    def __init__(self, settings: SignalSettings) -> None:
        self._settings = settings
        schema, _, name = settings.table.partition(".")
        self._table = sql.Identifier(schema, name)
        self._id = ""
        self._opened = ""

    def open(self, connection: psycopg.Connection[Any]) -> None:
        """Mark the begin of a chunk. Raises psycopg.Error."""
        if self._writes_rows:
            self._id, self._opened = str(uuid.uuid4()), _now()
            self._insert(connection, "open", {"openWindowTimestamp": self._opened})

    def close(self, connection: psycopg.Connection[Any]) -> None:
        """Mark the end of a chunk. Raises psycopg.Error."""
        if self._settings.is_read_only:
            return
        if not self._writes_rows or not self._id:
            connection.execute(b"select pg_logical_emit_message(true, %s, '')", [MESSAGE_PREFIX])
        elif self._settings.deletes_watermarks:
            statement = sql.SQL("delete from {} where id = %s").format(self._table)
            connection.execute(statement, [f"{self._id}-open"])
        else:
            times = {"openWindowTimestamp": self._opened, "closeWindowTimestamp": _now()}
            self._insert(connection, "close", times)
        self._id = ""

    @property
    def _writes_rows(self) -> bool:
        return bool(self._settings.table) and not self._settings.is_read_only

    def _insert(self, connection: psycopg.Connection[Any], kind: str, times: dict[str, str]) -> None:
        connection.execute(
            sql.SQL("insert into {} values (%s, %s, %s)").format(self._table),
            [f"{self._id}-{kind}", f"snapshot-window-{kind}", json.dumps(times)],
        )


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
