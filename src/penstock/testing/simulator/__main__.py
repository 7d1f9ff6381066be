"""`python -m penstock.testing.simulator --seeds A-B`: run seeds. One that fails is printed, and replays."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from penstock.testing.simulator.scenario import Report, simulate

SHARED_MEMORY = Path("/dev/shm")


def main() -> int:
    """The number of seeds that failed is not 0: exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m penstock.testing.simulator")
    parser.add_argument("--seeds", default="0-99", metavar="A-B", help="both included; or one seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--verbose", action="store_true", help="every seed, and the nodes' own logs")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    logging.basicConfig(
        level=logging.INFO if arguments.verbose else logging.CRITICAL, format="%(name)s %(message)s"
    )
    started = time.monotonic()
    failed = 0
    with ProcessPoolExecutor(arguments.jobs, initializer=gc.freeze, max_tasks_per_child=None) as pool:
        run = map(run_seed, seeds) if arguments.jobs == 1 else pool.map(run_seed, seeds, chunksize=4)
        for report in run:
            if report.failure is not None:
                failed += 1
                print(report, flush=True)
            elif arguments.verbose or len(seeds) <= 20:
                print(report, flush=True)
    print(f"{len(seeds)} seeds, {failed} failed, {time.monotonic() - started:.1f} s")
    return 1 if failed else 0


def run_seed(seed: int) -> Report:
    """A seed on a file system in memory, where there is one."""
    report = simulate(seed, SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
    if report.failure is not None:
        traceback.print_exception(report.failure)
    gc.collect()
    return report


if __name__ == "__main__":
    sys.exit(main())
