"""examples/flights.sql over the demo's input: its views answer while it runs, its results equal pandas'."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from penstock.cli.sql_shell.rest import Rest
from penstock.demo.check import compare, hours_of, table_of
from penstock.demo.data import load_frames
from penstock.demo.expected import Expected, expected_results
from penstock.demo.feed import Feed
from penstock.demo.log import LogRecord, read_topics
from penstock.demo.scenario import build_scenario
from penstock.demo.topics import Topics, create_topics
from penstock.testing import Cluster
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights.sql"
TOPICS = Topics("nyc")
PARTITIONS = 2
# A year takes minutes, so only `make soak-streams` runs one.
DAYS = 365 if os.environ.get("PENSTOCK_STREAMS_SPARK") == "all" else 4
PORTIONS = 5  # of the records; the first two are mostly planes and airports
TIMEOUT_S = 800

HOURS = "AIRLINE_HOURS"
"""The example's name for the demo's results per hour."""
TABLES = {
    "AIRLINE_DELAYS": TOPICS.airline_delays,
    "DESTINATION_DELAYS": TOPICS.destination_delays,
    "WEATHER_DELAYS": TOPICS.weather_delays,
}
WINDOW_START_BYTES = 8


class SqlServer:
    """`penstock sql server` in a process of its own, queried over HTTP and by the shell."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._rest = Rest(url)

    def run_file(self, path: Path) -> None:
        shell = [sys.executable, "-m", "penstock", "sql", "--server", self.url, "-f", str(path)]
        done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query that ends, as dictionaries by column."""
        body = {"ksql": query, "streamsProperties": {"auto.offset.reset": "earliest"}}
        with self._rest.rows(body) as events:
            header, *found = events
        names = re.findall(r"`(\w+)` ", header["header"]["schema"])
        assert not [event for event in found if "errorMessage" in event]
        return [dict(zip(names, event["row"]["columns"], strict=True)) for event in found if "row" in event]

    def queries(self) -> list[dict[str, Any]]:
        """The queries that write, in the order of the script."""
        [shown] = self._rest.execute({"ksql": "SHOW QUERIES;"})
        found = [query for query in shown["queries"] if query["sinkKafkaTopics"]]
        return sorted(found, key=lambda query: int(query["id"].rpartition("_")[2]))

    def lag(self, sink: str) -> int:
        """The lag of the query that writes to a stream or table, in its inputs and its own topics."""
        [entity] = self._rest.execute({"ksql": f"DESCRIBE {sink} EXTENDED;"})
        [group] = entity["sourceDescription"]["queryOffsetSummaries"]
        partitions = [each for topic in group["topicSummaries"] for each in topic["offsets"]]
        return sum(each["logEndOffset"] - each["consumerOffset"] for each in partitions)


@contextmanager
def started(servers: str, directory: Path) -> Iterator[SqlServer]:
    port_file = directory / "port"
    options = {
        "--bootstrap": servers,
        "--listen": "127.0.0.1:0",
        "--checkpoint": directory / "checkpoint",
        "--log": directory / "spark.log",
        "--port-file": port_file,
    }
    words = [str(word) for option in options.items() for word in option]
    process = subprocess.Popen([sys.executable, "-m", "penstock", "sql", "server", *words])
    try:
        wait_until(lambda: port_file.exists() or process.poll() is not None, TIMEOUT_S)
        assert process.poll() is None, "the SQL server did not start"
        yield SqlServer(f"http://127.0.0.1:{port_file.read_text().strip()}")
    finally:
        process.terminate()
        process.wait(60)


def test_the_flights_in_sql(tmp_path: Path) -> None:
    scenario = build_scenario(load_frames(DAYS), TOPICS, PARTITIONS, seed=11)
    with Cluster() as cluster, started(cluster.bootstrap_servers, tmp_path) as server:
        create_topics(cluster.bootstrap_servers, TOPICS, PARTITIONS)
        feed = Feed(cluster.bootstrap_servers, scenario.records)
        feed.send(3 * feed.total // PORTIONS)
        server.run_file(EXAMPLE)
        queries = server.queries()
        sinks = [query["sinks"][0] for query in queries]
        assert set(sinks) > {HOURS, *TABLES}
        wait_until(lambda: all(server.rows(f"SELECT * FROM {view};") for view in (HOURS, *TABLES)), TIMEOUT_S)
        require_plausible(server, feed.sent)
        require_answers_of_the_first_lines(server)
        while not feed.is_done:
            feed.send(feed.total // PORTIONS)
            require_plausible(server, feed.sent)
        # In the script's order: a query without lag has written all that the next one reads.
        wait_until(lambda: all(server.lag(sink) == 0 for sink in sinks), TIMEOUT_S)
        assert [query["state"] for query in server.queries()] == ["RUNNING"] * len(queries)
        expected = expected_results(read_topics(cluster.bootstrap_servers, TOPICS.inputs), TOPICS)
        assert expected.out_of_order > expected.reports * 0.2
        assert min(expected.too_late, expected.tombstones) > 10
        written = read_topics(cluster.bootstrap_servers, [HOURS, *TABLES])
        require_equal_results(written, expected)
        require_equal_views(server, expected)


def require_plausible(server: SqlServer, sent: int) -> None:
    """Check conditions that hold for the results of any part of the input."""
    airlines, destinations = (
        server.rows(f"SELECT * FROM {table};") for table in ("AIRLINE_DELAYS", "DESTINATION_DELAYS")
    )
    assert "United Air Lines Inc." in " ".join(row["AIRLINE"] or "" for row in airlines)
    for rows in (airlines, destinations):
        assert 0 < sum(row["FLIGHTS"] for row in rows) <= sent
        assert not [row for row in rows if row["CANCELLED"] + row["DELAYED"] > row["FLIGHTS"]]
    hours = server.rows("SELECT * FROM airline_hours WHERE carrier = 'UA';")
    assert {row["WINDOWEND"] - row["WINDOWSTART"] for row in hours} == {60 * 60 * 1000}


def require_answers_of_the_first_lines(server: SqlServer) -> None:
    asked = re.findall(r'penstock sql -e "(.+;)"', EXAMPLE.read_text())
    assert len(asked) > 3
    for query in asked:
        assert server.rows(query), query


def require_equal_results(written: Mapping[str, list[LogRecord]], expected: Expected) -> None:
    """Compare the topics: the last rows of each table, and every hour once."""
    for table, topic in TABLES.items():
        require_equal(table, in_lower_case(table_of(written[table])), expected.results[topic])
    hours = in_lower_case(hours_of(with_hours_in_values(written[HOURS])))
    require_equal(HOURS, hours, expected.results[TOPICS.hours])


def require_equal_views(server: SqlServer, expected: Expected) -> None:
    """Compare the answers of pull queries; they include the hours that are still open."""
    for table, topic in TABLES.items():
        require_equal(table, frame_of(server.rows(f"SELECT * FROM {table};")), expected.results[topic])
    hours = expected.results[TOPICS.hours]
    rows = server.rows("SELECT * FROM airline_hours;")
    final = [row for row in rows if f"{row['CARRIER']} {row['WINDOWSTART']}" in hours.index]
    require_equal(HOURS, frame_of(final, "WINDOWSTART", dropped="WINDOWEND"), hours)
    closed_ms = {row["CARRIER"]: row["WINDOWSTART"] for row in sorted(final, key=itemgetter("WINDOWSTART"))}
    still_open = [row for row in rows if row not in final]
    assert still_open
    assert not [row for row in still_open if row["WINDOWSTART"] <= closed_ms.get(row["CARRIER"], 0)]


def require_equal(table: str, found: pd.DataFrame, expected: pd.DataFrame) -> None:
    assert compare(table, found, expected.rename(columns={"minutes": "delay_minutes"})).differences == []
    assert len(found) > 10


def in_lower_case(found: pd.DataFrame) -> pd.DataFrame:
    return found.rename(columns=str.lower)


def frame_of(rows: list[dict[str, Any]], *keys: str, dropped: str = "") -> pd.DataFrame:
    """A frame of the rows, indexed by their first column and these ``keys``."""
    key = next(iter(rows[0]))
    index = [" ".join(str(row[name]) for name in (key, *keys)) for row in rows]
    frame = pd.DataFrame(rows, pd.Index(index, dtype=object))
    return in_lower_case(frame.drop(columns=[key, *keys, *filter(None, [dropped])]))


def with_hours_in_values(log: list[LogRecord]) -> list[LogRecord]:
    """Convert hours to the demo's form: here a key has its window's start at its end."""
    return [
        record._replace(
            key=record.key[:-WINDOW_START_BYTES],
            value=json.dumps(
                json.loads(record.value or b"{}")
                | {"hour_ms": int.from_bytes(record.key[-WINDOW_START_BYTES:])}
            ).encode(),
        )
        for record in log
    ]
