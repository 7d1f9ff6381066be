"""Records per second through one query that has a backlog."""

from __future__ import annotations

import time
from typing import Any, Final

from continuous_sql.orders import ORDERS, Feed
from continuous_sql.server import GroupProgress, Server

_TIMEOUT_S: Final = 300.0
_STATEMENTS: Final = {
    "filter": "CREATE STREAM filtered AS SELECT id, price FROM orders WHERE price > 90;",
    "windowed count": """
        CREATE TABLE counted AS SELECT customer, COUNT(*) AS n
        FROM orders WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY customer;""",
    "stream-table join": """
        CREATE STREAM joined AS SELECT o.id AS id, o.customer AS customer, c.name
        FROM orders o JOIN customers c ON o.customer = c.id;""",
}
_SINKS: Final = {"filter": "FILTERED", "windowed count": "COUNTED", "stream-table join": "JOINED"}


def measure(server: Server, feed: Feed, records: int) -> dict[str, dict[str, Any]]:
    """Measure each kind of statement, by name."""
    feed.write(records)
    return {name: _one(server, _SINKS[name], statement, feed.sent) for name, statement in _STATEMENTS.items()}


def _one(server: Server, sink: str, statement: str, records: int) -> dict[str, Any]:
    """Measure one statement, with the rate from the end of the first batch on: Spark warms up before that."""
    began_s = time.monotonic()
    server.run(statement)
    progress = GroupProgress(server.servers, server.query_of(sink), ORDERS)
    seen = [each for each in progress.wait_for(records, _TIMEOUT_S) if each[1]]
    progress.close()
    kind = "STREAM" if statement.lstrip().startswith("CREATE STREAM") else "TABLE"
    server.run(f"DROP {kind} {sink} DELETE TOPIC;")
    (first_s, first), (last_s, last) = seen[0], seen[-1]
    return {
        "records": records,
        "records_per_s": round((last - first) / (last_s - first_s)) if last > first else None,
        "first_batch_s": round(first_s - began_s, 2),
        "all_s": round(last_s - began_s, 2),
    }
