"""`python -m side_by_side`: measure the missing rows, then write the page.

`run` measures the rows that are missing and writes the page, `report` only writes it, `list` names the rows.
"""

import argparse
import os
import resource
import sys
from pathlib import Path

from penstock.bench.c_program import BuildError
from penstock.bench.loadgen import Loadgen
from side_by_side.brokers import Kafka, Penstock
from side_by_side.comparison import Comparison, make_broker
from side_by_side.cores import Cores
from side_by_side.jars import JarsUnavailable, cache_root, kafka_jars
from side_by_side.machine import describe, file_system
from side_by_side.page import write_part
from side_by_side.report import render
from side_by_side.results import AnotherMachine, Results
from side_by_side.rows import Row, all_rows

ROOT = Path(__file__).parents[2]
NOT_POSSIBLE_HERE = 3


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
        except (JarsUnavailable, AnotherMachine, BuildError) as error:
            print(f"bench-kafka cannot run here: {error}", file=sys.stderr)
            return NOT_POSSIBLE_HERE
    write_part(options.page, "make bench-kafka", render(Results.load(options.results)))
    print(f"written: {options.page}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="side_by_side", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("run", "report", "list"), nargs="?", default="run")
    parser.add_argument(
        "--rows", action="append", default=[], metavar="TEXT", help="rows with this in their name"
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="FACTOR", help="of what rows send and read"
    )
    parser.add_argument("--only", choices=(Penstock.name, Kafka.name), action="append", default=[])
    parser.add_argument("--again", action="store_true", help="measure rows anew that have been measured")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results.json", metavar="FILE")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md", metavar="FILE")
    parser.add_argument("--directory", type=Path, default=cache_root() / "side-by-side", metavar="DIR")
    parser.add_argument("--broker-core", type=int, default=max(os.sched_getaffinity(0)), metavar="N")
    return parser.parse_args()


def _run(options: argparse.Namespace, rows: list[Row]) -> None:
    jars = kafka_jars()
    cores = _cores(options.broker_core)
    options.directory.mkdir(parents=True, exist_ok=True)
    if file_system(options.directory) == "tmpfs":
        raise JarsUnavailable(f"{options.directory} is in memory: name one on a disk with --directory")
    brokers = [make_broker(name, options.directory, cores, jars) for name in (Penstock.name, Kafka.name)]
    results = Results.for_machine(options.results, describe(options.directory, cores, brokers))
    if options.again:
        results.forget(row.name for row in rows)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # for a thousand connections and partitions
    missing = Loadgen().tls_missing()
    if missing is not None and any(row.over_tls for row in rows):
        _say(f"rows over TLS are left out: {missing}")
        rows = [row for row in rows if not row.over_tls]
    os.sched_setaffinity(0, {cores.client})
    only = options.only or [Penstock.name, Kafka.name]
    Comparison(rows, results, options.directory, cores, jars, options.scale, only, _say).run(options.rounds)


def _cores(broker_core: int) -> Cores:
    others = sorted(os.sched_getaffinity(0) - {broker_core})
    if not others:
        raise JarsUnavailable("two cores are needed, one for the broker and one for its clients")
    return Cores(broker_core, others[0])


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
