"""Lookups over HTTP in a table of many keys that change continuously."""

from __future__ import annotations

import json
import time
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from continuous_sql.server import Server, wait_until
from views.child import Child
from views.schedule import INPUT

_PREPARE_NS: Final = 8_000_000_000
_AGE_S: Final = 4.0
"""The age up to which lookups request changed keys."""
_LOAD_TIMEOUT_S: Final = 600.0


class _Table(NamedTuple):
    """A table that lookups query, with the statements that create and drop it."""

    kind: str
    name: str
    made: str
    dropped: str


_TABLES: Final = (
    _Table(
        "a source table",
        "FOLLOWED",
        f"""CREATE SOURCE TABLE followed (id STRING PRIMARY KEY, sent BIGINT)
              WITH (KAFKA_TOPIC='{INPUT}', FORMAT='KAFKA');""",
        "DROP TABLE followed;",
    ),
    _Table(
        "a table that a query makes",
        "MADE",
        f"""CREATE TABLE updates (id STRING PRIMARY KEY, sent BIGINT)
              WITH (KAFKA_TOPIC='{INPUT}', FORMAT='KAFKA');
            CREATE TABLE made AS SELECT * FROM updates;""",
        "DROP TABLE made DELETE TOPIC; DROP TABLE updates;",
    ),
)


def measure(
    server: Server, keys: int, updates_per_s: int, lookups_per_s: int, seconds: float, partitions: int
) -> dict[str, Any]:
    """Measure lookups, by the kind of table."""
    admin = AdminClient({"bootstrap.servers": server.servers})
    admin.create_topics([NewTopic(INPUT, partitions, 1)])[INPUT].result(30)
    shared = {
        "servers": server.servers,
        "keys": keys,
        "partitions": partitions,
        "updates_per_s": updates_per_s,
        "to": "input",
    }
    loader = Child("views.writer", json.dumps(shared | {"step": "load"}))
    loader.told()
    loader.wait()
    found = {}
    for table in _TABLES:
        began_s = time.monotonic()
        server.run(table.made)
        _wait_until_there(server, table.name, keys)
        loaded_s = time.monotonic() - began_s
        measured = _ask(server, table.name, shared, lookups_per_s, seconds)
        found[table.kind] = {"loaded_s": round(loaded_s, 1), **measured}
        server.run(table.dropped)
    return found


def _wait_until_there(server: Server, name: str, keys: int) -> None:
    last = f"SELECT sent FROM {name} WHERE id = 'user-{keys - 1:07}';"
    wait_until(lambda: bool(server.rows(last)), _LOAD_TIMEOUT_S, f"{name} lacks its last key")


def _ask(
    server: Server, table: str, shared: dict[str, Any], lookups_per_s: int, seconds: float
) -> dict[str, Any]:
    asker = Child("continuous_sql.lookups", str(server.port), table)
    start_ns = time.monotonic_ns() + _PREPARE_NS
    writing = {"step": "write", "start_ns": start_ns, "seconds": seconds + _AGE_S + 0.5}
    writer = Child("views.writer", json.dumps(shared | writing))
    asker.tell(
        start_ns=start_ns,
        keys=shared["keys"],
        updates_per_s=shared["updates_per_s"],
        age_s=_AGE_S,
        lookups_per_s=lookups_per_s,
        seconds=seconds,
    )
    measured = asker.told()
    writer.told()
    for child in (asker, writer):
        child.wait()
    return measured
