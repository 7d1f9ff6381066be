"""`penstock cdc mirror` under a storm of changes and kills of itself, its worker, its node and the database.

After each round, `--once` must leave tables that are equal to the database, row for row.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from long_run import repetitions
from penstock.demo.capture.copies import differences, rows_of_database, rows_of_delta
from penstock.demo.capture.postgres import Postgres, PostgresMissing
from penstock.demo.capture.storm import Storm
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

ROUNDS = repetitions("PENSTOCK_MIRROR_ROUNDS", gate=1, long=4)
READY_S = 400
CHANGES = 1500
"""Changes of rows between two kills."""


@pytest.fixture
def server() -> Iterator[Postgres]:
    pytest.importorskip("psycopg")
    pytest.importorskip("deltalake")
    try:
        with Postgres() as found:
            yield found
    except PostgresMissing as error:
        pytest.skip(str(error))


def test_tables_equal_the_database_after_kills(server: Postgres, tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    rng = random.Random(seed)
    storm = Storm(server.url, seed)
    storm.prepare()
    storm.start()
    try:
        for number in range(ROUNDS):
            with following_mirror(server, tmp_path) as mirror:
                let_pass(storm, rng.randrange(CHANGES))
                if number == 0:
                    storm.alter()
                if rng.random() < 0.5:
                    server.kill()
                    server.start()
                    let_pass(storm, CHANGES)
                mirror.send_signal(signal.SIGKILL)
        let_pass(storm, CHANGES)
    finally:
        storm.stop()
        wait_until(lambda: not processes_of(tmp_path), timeout_s=READY_S)
    for _ in range(2):  # the second has nothing to do
        caught_up = subprocess.run(
            command(server, tmp_path, "--once"), capture_output=True, text=True, check=False, timeout=READY_S
        )
        assert caught_up.returncode == 0, caught_up.stdout + caught_up.stderr
        expected, found = rows_of_database(server.url), rows_of_delta(tmp_path / "lake")
        wrong = {table: differences(found[table], rows) for table, rows in expected.items()}
        assert not any(wrong.values()), {table: lines[:5] for table, lines in wrong.items()}
    print(f"kills={ROUNDS} changes={storm.changes} rows={sum(map(len, expected.values()))}")


def command(server: Postgres, path: Path, *more: str) -> list[str]:
    words = ["cdc", "mirror", server.url, "--to", f"delta:{path / 'lake'}", "--tables", "inv.*"]
    return [sys.executable, "-m", "penstock.cli.main", *words, "--state", str(path / "state"), *more]


@contextmanager
def following_mirror(server: Postgres, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A mirror that is not told to stop, for as long as it takes to kill it; it has begun to write."""
    written = commits(path)
    log = path / "mirror.log"
    with log.open("ab") as output:
        process = subprocess.Popen(command(server, path), stdout=output, stderr=output)
    try:
        wait_until(lambda: process.poll() is not None or commits(path) > written, timeout_s=READY_S)
        assert process.poll() is None, log.read_text()[-3000:]
        yield process
    finally:
        process.kill()
        process.wait()


def processes_of(path: Path) -> list[int]:
    """Return the processes of mirrors, which end by themselves after the mirror was killed."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(path).encode() in each.read_bytes():
                found.append(int(each.parent.name))
    return found


def commits(path: Path) -> int:
    return len([*(path / "lake").rglob("_delta_log/*.json")])


def let_pass(storm: Storm, changes: int) -> None:
    """Wait until the storm has made some more changes."""
    end = storm.changes + changes
    while storm.changes < end:
        assert storm.failure is None
        time.sleep(0.05)
