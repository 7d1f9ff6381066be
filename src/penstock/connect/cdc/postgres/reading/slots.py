"""Replication slots as the server's catalog shows them, and their removal."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import psycopg

from penstock.connect.errors import ConfigInvalid

_WITH_STATUS_VERSION: Final = 130000
_QUERY: Final = """
select plugin::text, database::text, (confirmed_flush_lsn - '0/0')::int8, {status}, active
from pg_replication_slots where slot_name = %s"""


class SlotState(NamedTuple):
    """A slot for pgoutput of this database. A slot that is lost cannot be read any more.

    A slot is active while a session reads it.
    """

    confirmed: int
    is_lost: bool
    is_active: bool = False


def slot_state(connection: psycopg.Connection[Any], name: str) -> SlotState | None:
    """The state of a slot; None if there is no such slot.

    Raises:
        ConfigInvalid: the slot is of another plugin or another database.
    """
    has_status = connection.info.server_version >= _WITH_STATUS_VERSION
    query = _QUERY.format(status="coalesce(wal_status, '')" if has_status else "''")
    row = connection.execute(query.encode(), [name]).fetchone()
    if row is None:
        return None
    plugin, database, confirmed, status, is_active = row
    if plugin != "pgoutput" or database != connection.info.dbname:
        raise ConfigInvalid(
            f"slot.name is {name!r}, a slot of the plugin {plugin} in the database {database}; expected one "
            f"of pgoutput in {connection.info.dbname}, or a name that is free"
        )
    return SlotState(confirmed or 0, status == "lost", is_active)


def drop_slot(connection: psycopg.Connection[Any], name: str) -> bool:
    """Drop a slot unless a session reads it; returns whether there is no such slot left.

    Raises psycopg.Error.
    """
    connection.execute(
        b"select pg_drop_replication_slot(slot_name) from pg_replication_slots "
        b"where slot_name = %s and not active",
        [name],
    )
    return not connection.execute(b"select from pg_replication_slots where slot_name = %s", [name]).fetchall()
