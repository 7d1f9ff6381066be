"""Run seeds: `python -m penstock.testing.simulator --seeds A-B`.

A failing seed is printed and can be replayed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import pickle
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

from penstock.testing.simulator.loop import VirtualLoop
from penstock.testing.simulator.run import Report, simulate

SHARED_MEMORY = Path("/dev/shm")


def main() -> int:
    """Run the seeds and return the exit code: 1 if any of them failed."""
    parser = argparse.ArgumentParser(prog="python -m penstock.testing.simulator")
    parser.add_argument("--seeds", default="0-99", metavar="A-B", help="both included; or one seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--longer", type=float, default=1.0, metavar="X", help="times as long, each seed")
    parser.add_argument("--verbose", action="store_true", help="every seed, and the nodes' own logs")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    _log_at(logging.INFO if arguments.verbose else logging.CRITICAL + 1)
    started = time.monotonic()
    failed = 0
    run_one = partial(run_apart, longer=arguments.longer)
    gc.freeze()
    first_report = run_seed(seeds[0], arguments.longer)
    gc.freeze()  # later processes inherit what the first seed compiled and imported
    with ProcessPoolExecutor(arguments.jobs, get_context("fork")) as pool:
        others = seeds[1:]
        run = map(run_one, others) if arguments.jobs == 1 else pool.map(run_one, others, chunksize=4)
        for report in chain((first_report,), run):
            if report.failure is not None:
                failed += 1
                print(report, flush=True)
            elif arguments.verbose or len(seeds) <= 20:
                print(report, flush=True)
    print(f"{len(seeds)} seeds, {failed} failed, {time.monotonic() - started:.1f} s")
    return 1 if failed else 0


class _Place(logging.Filter):
    """Adds the simulated time and the machine to log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        loop = asyncio._get_running_loop()
        record.place = f"{loop.now_s:8.4f} {loop.current!s:9}" if isinstance(loop, VirtualLoop) else ""
        return True


def _log_at(level: int) -> None:
    handler = logging.StreamHandler()
    handler.addFilter(_Place())
    logging.basicConfig(level=level, format="%(place)s %(name)s %(message)s", handlers=[handler])


def run_seed(seed: int, longer: float = 1.0) -> Report:
    """Run a seed on a file system in memory, if there is one."""
    report = _run_in_memory(seed, longer)
    gc.collect()
    return report


def _run_in_memory(seed: int, longer: float) -> Report:
    report = simulate(seed, SHARED_MEMORY if SHARED_MEMORY.is_dir() else None, longer)
    if report.failure is not None:
        traceback.print_exception(report.failure)
    return report


def run_apart(seed: int, longer: float = 1.0) -> Report:
    """Run a seed like `run_seed`, in a child process: ending a process is faster than freeing a cluster."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with open(writer, "wb") as answer:
            pickle.dump(_run_in_memory(seed, longer).portable(), answer)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    if not data:
        raise RuntimeError(f"the process of seed {seed} ended without a report")
    report = pickle.loads(data)
    assert isinstance(report, Report)
    return report


if __name__ == "__main__":
    sys.exit(main())
