"""Imported modules stay out of a worker's garbage collections; nothing changes outside workers."""

import gc
import os
import subprocess
import sys

import pytest

from penstock.spark.workers.memory import seldom_collecting, settle_worker

PROGRAM = """
import gc
from penstock.spark.workers.memory import settle_worker
frozen = []
kept = []
for _ in range(9):
    kept.append([[]])  # what a task leaves
    settle_worker()
    frozen.append(gc.get_freeze_count())
print(*frozen)
"""


@pytest.mark.parametrize(("environment", "grows_at"), [({"SPARK_REUSE_WORKER": "1"}, [2, 4, 8]), ({}, [])])
def test_when_objects_leave_collections(environment: dict[str, str], grows_at: list[int]) -> None:
    others = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    words = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(words, env=others | environment, capture_output=True, text=True, check=True)
    frozen = [0, *map(int, run.stdout.split())]
    assert [call for call in range(1, 10) if frozen[call] > frozen[call - 1]] == grows_at


def test_this_process_is_no_worker() -> None:
    before = gc.get_freeze_count()
    for _ in range(4):
        settle_worker()
    assert gc.get_freeze_count() == before


def test_collections_are_rare_while_a_batch_is_worked_on_and_as_before_after_it() -> None:
    before = gc.get_threshold()

    def batch() -> None:
        with seldom_collecting():
            assert gc.get_threshold()[0] > 100 * before[0]
            raise ValueError("in the batch")

    with pytest.raises(ValueError, match="in the batch"):
        batch()
    assert gc.get_threshold() == before
