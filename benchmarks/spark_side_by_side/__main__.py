"""`python -m spark_side_by_side`: measure the missing rows, then write this part of the page.

`run` measures the rows that are missing and writes the page, `report` only writes it, `list` names the rows.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from penstock.bench.c_program import BuildError
from penstock.spark.launching.java import JavaNotFound
from side_by_side.jars import JarsUnavailable, cache_root, spark_connector_jars
from side_by_side.machine import file_system
from side_by_side.page import write_part
from side_by_side.results import AnotherMachine, Results
from spark_side_by_side.comparison import Comparison
from spark_side_by_side.machine import describe
from spark_side_by_side.report import render
from spark_side_by_side.rows import Row, all_rows
from spark_side_by_side.sides import CONNECTOR, PENSTOCK

ROOT = Path(__file__).parents[2]
NOT_POSSIBLE_HERE = 3
QUICK_SCALE = 0.1


def main() -> int:
    options = _options()
    rows = [row for row in all_rows() if not options.rows or any(text in row.name for text in options.rows)]
    if options.command == "list":
        print("\n".join(row.name for row in rows))
        return 0
    if options.command == "run":
        if not rows:
            print(f"no row has {' or '.join(options.rows)} in its name", file=sys.stderr)
            return 2
        try:
            _run(options, rows)
        except (JarsUnavailable, AnotherMachine, BuildError, JavaNotFound) as error:
            print(f"bench-spark cannot run here: {error}", file=sys.stderr)
            return NOT_POSSIBLE_HERE
    part = render(Results.load(options.results))
    if options.quick:  # figures of a quick run are shown, but not published
        print(part)
        return 0
    write_part(options.page, "make bench-spark", part)
    print(f"written: {options.page}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark_side_by_side", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("run", "report", "list"), nargs="?", default="run")
    parser.add_argument(
        "--rows", action="append", default=[], metavar="TEXT", help="rows with this in their name"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--scale", type=float, default=1.0, metavar="FACTOR", help="of how much rows read")
    parser.add_argument(
        "--quick", action="store_true", help="one round, a tenth of the volumes, no page: some minutes"
    )
    parser.add_argument("--only", choices=(PENSTOCK.name, CONNECTOR.name), action="append", default=[])
    parser.add_argument("--again", action="store_true", help="measure rows anew that have been measured")
    parser.add_argument("--results", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md", metavar="FILE")
    parser.add_argument("--directory", type=Path, default=cache_root() / "spark-side-by-side", metavar="DIR")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.scale, options.again = 1, QUICK_SCALE, True
    if options.results is None:
        name = "spark-results-quick.json" if options.quick else "spark-results.json"
        options.results = ROOT / "benchmarks" / name
    return options


def _run(options: argparse.Namespace, rows: list[Row]) -> None:
    only = options.only or [PENSTOCK.name, CONNECTOR.name]
    jars = spark_connector_jars() if CONNECTOR.name in only else []
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    if file_system(options.directory) == "tmpfs":
        raise JarsUnavailable(f"{options.directory} is in memory: name one on a disk with --directory")
    results = Results.for_machine(options.results, describe(options.directory))
    if options.again:
        results.forget(row.name for row in rows)
    try:
        Comparison(rows, results, options.directory, jars, options.scale, only, _say).run(options.rounds)
    finally:
        shutil.rmtree(options.directory, ignore_errors=True)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
