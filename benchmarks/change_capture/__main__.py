"""Capture the same changes with our task and with Debezium's, in turns, and print what a CPU second does.

PYTHONPATH=benchmarks python -m change_capture [--rounds 3] [--changes 200000]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import psycopg

from change_capture.test_parts import DEBEZIUM_POM, RunningServer, jars_of, java_command, restartable_server

RUN_TIMEOUT_S: Final = 600
TABLE: Final = """
create table orders (id bigint primary key, customer int not null, state text, amount numeric(12,2),
                     placed timestamp not null default now(), paid boolean)"""
ROWS: Final = (
    "insert into orders select n, n % 1000, 'state ' || n % 7, n % 100000 / 100.0,"
    " timestamp '2024-01-01' + n * interval '1 second', n % 2 = 0 from generate_series({first}, {last}) n"
)
CASES: Final = {"snapshot": 0, "100 rows a transaction": 100, "1 row a transaction": 1, "one transaction": -1}
"""The rows of a transaction; 0 for a snapshot of rows, -1 for all rows in one."""


def main() -> None:
    """Run all cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--schemas", action="store_true", help="write each record with its schema")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--case", choices=CASES, action="append")
    arguments = parser.parse_args()
    with restartable_server() as server:
        sides = {"ours": [sys.executable, "-m", "change_capture.captures"]}
        if not arguments.ours_only:
            jars = jars_of(DEBEZIUM_POM, "debezium-3.6.1")
            sides["debezium"] = java_command(
                jars, str(Path(__file__).parent / "DebeziumCapture.java"), "-Xmx512m"
            )
        print("| changes | side | per CPU second | per second |\n| --- | --- | --- | --- |")
        for case in arguments.case or CASES:
            _case(server, case, sides, arguments)


def _case(
    server: RunningServer, case: str, sides: dict[str, list[str]], arguments: argparse.Namespace
) -> None:
    slots = [f"{side}_{number}_{CASES[case] + 1}" for number in range(arguments.rounds) for side in sides]
    database = f"changes_{abs(CASES[case])}_{CASES[case] < 0:d}"
    prepare(server, database, CASES[case], arguments.changes, slots)
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for number in range(arguments.rounds):
        for side, command in sides.items():
            properties = connector_properties(
                server.port, database, f"{side}_{number}_{CASES[case] + 1}", not CASES[case]
            )
            properties |= {
                "records": str(arguments.changes),
                "schemas.enable": str(arguments.schemas).lower(),
            }
            done = subprocess.run(
                command,
                input=json.dumps(properties),
                stdout=subprocess.PIPE,
                stderr=None if side == "ours" else subprocess.DEVNULL,
                text=True,
                check=True,
                timeout=RUN_TIMEOUT_S,
            )
            count, cpu, seconds = (float(each) for each in done.stdout.splitlines()[-1].split())
            found[side].append((count / cpu, count / seconds))
    for side, rates in found.items():
        by_cpu, by_second = (statistics.median(each) for each in zip(*rates, strict=True))
        print(f"| {case} | {side} | {by_cpu:,.0f} | {by_second:,.0f} |", flush=True)


def prepare(server: RunningServer, database: str, size: int, changes: int, slots: list[str]) -> None:
    """Make the table and, with slots before them, the changes; without a size, only rows for a snapshot."""
    with psycopg.connect(server.where("postgres"), autocommit=True) as session:
        session.execute(f"create database {database}".encode())
    with psycopg.connect(server.where(database), autocommit=True) as session:
        session.execute(TABLE)
        session.execute("create publication dbz_publication for all tables")
        if not size:
            session.execute(ROWS.format(first=1, last=changes).encode())
            return
        size = changes if size < 0 else size
        for slot in slots:
            session.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        insert = ROWS.format(first=f"i * {size} + 1", last=f"(i + 1) * {size}")
        loop = f"for i in 0..{changes // size - 1} loop {insert}; commit; end loop"
        session.execute(f"do $do$ begin {loop}; end $do$".encode())


def connector_properties(port: int, database: str, slot: str, is_snapshot: bool) -> dict[str, Any]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "task.id": "0",
        "name": "bench",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": database,
        "topic.prefix": "bench",
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "snapshot.mode": "initial_only" if is_snapshot else "no_data",
    }


if __name__ == "__main__":
    main()
