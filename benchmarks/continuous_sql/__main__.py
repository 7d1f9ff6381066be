"""`python -m continuous_sql`: backlogs, latencies and lookups of a SQL server, with a node beside it.

Each part has its own node and server. The program prints a table; with ``--json FILE`` it writes all figures
to that file, and with ``--page FILE`` its part of that page.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from continuous_sql import pull, push, statements, throughput
from continuous_sql.orders import SOURCES, Feed
from continuous_sql.report import page, table
from continuous_sql.server import Server, serving
from penstock.testing import Cluster
from side_by_side.page import write_part

PARTS = ("throughput", "statements", "push", "pull")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {
        "setting": {name: given for name, given in vars(options).items() if name not in ("json", "page")}
    }
    for part in options.parts:
        print(f"== {part}", file=sys.stderr, flush=True)
        with _server() as server:
            found.setdefault("server_start_s", round(server.start_s, 2))
            found[part] = _part(part, server, options)
    return found


@contextmanager
def _server() -> Iterator[Server]:
    with (
        Cluster(fork=False) as cluster,
        tempfile.TemporaryDirectory() as directory,
        serving(cluster.bootstrap_servers, Path(directory)) as server,
    ):
        yield server


def _part(part: str, server: Server, options: argparse.Namespace) -> dict[str, Any]:
    match part:
        case "push":
            return push.measure(server, options.pushed)
        case "pull":
            return pull.measure(
                server, options.keys, options.updates, options.lookups, options.seconds, options.partitions
            )
    feed = Feed(server.servers, options.partitions)
    server.run(SOURCES)
    if part == "throughput":
        return throughput.measure(server, feed, options.records)
    return statements.measure(server, feed, options.statements, options.rate, options.seconds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="continuous_sql", description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--records", type=int, default=500_000, help="of the backlog")
    parser.add_argument("--statements", type=int, default=20)
    parser.add_argument("--rate", type=int, default=10_000, help="records a second that they read")
    parser.add_argument("--pushed", type=int, default=1_000, help="rows")
    parser.add_argument("--keys", type=int, default=1_000_000, help="of the table that is asked")
    parser.add_argument("--updates", type=int, default=10_000, help="a second")
    parser.add_argument("--lookups", type=int, default=1_000, help="a second")
    parser.add_argument("--seconds", type=float, default=30, help="of statements and of lookups")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE")
    options = parser.parse_args()
    found = measure(options)
    print(table(found))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if options.page is not None:
        write_part(options.page, "make bench-sql", page(found, push.RATE_PER_S))
    return 0


if __name__ == "__main__":
    sys.exit(main())
