"""A running application is killed with SIGKILL in the middle of batches; restarted, it continues exactly.

PENSTOCK_STREAMS_KILLS sets the number of kills (10 to 20 s each; without it there are none and the test is
skipped), PENSTOCK_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import streams_driver
from streams_driver import SUMS, TOTALS, WORDS
from streams_node import Node

from penstock.testing import Cluster

KILLS = int(os.environ.get("PENSTOCK_STREAMS_KILLS", "0"))
KEYS = [letter + str(n) for letter in "abc" for n in range(4)]
START_TIMEOUT_S = 180
DRAIN_TIMEOUT_S = 180

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3 * DRAIN_TIMEOUT_S + START_TIMEOUT_S * KILLS),
    pytest.mark.skipif(KILLS == 0, reason="PENSTOCK_STREAMS_KILLS sets how many kills"),
]


class Process:
    """A driver with its Java process and Python workers: one process group."""

    def __init__(self, servers: str, checkpoint: Path, until: str, log: Path) -> None:
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, streams_driver.__file__, servers, str(checkpoint), until],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    def wait_for_a_batch(self, number: int) -> None:
        """Wait until this many processes have finished their first batch."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._log.read_text().count("first batch done") < number:
            assert self._process.poll() is None, self._log.read_text()[-4000:]
            assert time.monotonic() < deadline, self._log.read_text()[-4000:]
            time.sleep(0.05)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait(self) -> None:
        assert self._process.wait(DRAIN_TIMEOUT_S) == 0, self._log.read_text()[-4000:]


@contextmanager
def writing(node: Node, rng: random.Random) -> Iterator[Counter[str]]:
    """Write records of random keys all the time; the number of each key is complete at the end."""
    written: Counter[str] = Counter()
    is_over = threading.Event()

    def write() -> None:
        now_ms = 1_000_000
        while not is_over.is_set():
            some = rng.choices(KEYS, k=20)
            node.write([(WORDS, key.encode(), b"x", now_ms + n) for n, key in enumerate(some)])
            now_ms += len(some)
            written.update(some)
            is_over.wait(0.25)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        is_over.set()
        thread.join()


def test_every_update_once_and_in_order_after_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", str(time.time_ns() % 2**32)))
    print(f"PENSTOCK_SEED={seed}")
    rng = random.Random(seed)
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "driver.log"
    log.touch()
    with Cluster() as cluster:
        node = Node(cluster.bootstrap_servers)
        node.create(2, WORDS)
        with writing(node, rng) as written:
            for number in range(1, KILLS + 1):
                run_and_kill(node, checkpoint, log, number, rng)
        drain(node, checkpoint, log)
        assert_exact(node, written)
        # One more kill, then a restart from the topics alone, which waits for the dead driver's transaction.
        with writing(node, rng) as later:
            run_and_kill(node, checkpoint, log, KILLS + 2, rng)
        shutil.rmtree(checkpoint)
        drain(node, checkpoint, log)
        assert_exact(node, written + later)


def run_and_kill(node: Node, checkpoint: Path, log: Path, number: int, rng: random.Random) -> None:
    with Process(node.servers, checkpoint, "stopped", log) as process:
        process.wait_for_a_batch(number)
        time.sleep(rng.uniform(0, 5))


def drain(node: Node, checkpoint: Path, log: Path) -> None:
    with Process(node.servers, checkpoint, "drained", log) as process:
        process.wait()


def assert_exact(node: Node, written: Counter[str]) -> None:
    counts: dict[str, list[int]] = defaultdict(list)
    for key, value, _ in node.read(TOTALS):
        counts[(key or b"").decode()].append(int.from_bytes(value or b""))
    assert counts == {key: list(range(1, count + 1)) for key, count in written.items()}
    sums: dict[str, int] = {}
    for key, value, _ in node.read(SUMS):
        sums[(key or b"").decode()] = int.from_bytes(value or b"")
    by_letter: Counter[str] = Counter()
    for key, count in written.items():
        by_letter[key[0]] += count
    assert sums == by_letter
