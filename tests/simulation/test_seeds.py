"""Seeds of the simulator: none may break a promise, and each replays exactly."""

import os
import subprocess
import sys

import pytest

from long_run import repetitions

SEEDS = repetitions("PENSTOCK_SIMULATION_SEEDS", gate=6, long=42)
SEEDS_PER_TEST = 6


@pytest.mark.longer
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken(first: int) -> None:
    """Run in another process, which takes half the time because it has fewer objects to collect."""
    done = simulated(f"{first}-{first + SEEDS_PER_TEST - 1}")
    assert f"{SEEDS_PER_TEST} seeds, 0 failed" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.returncode == 0


def simulated(seeds: str, hash_seed: str = "random") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock.testing.simulator", "--seeds", seeds],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_two_runs_of_a_seed_are_the_same() -> None:
    """Run in other processes, where strings have other hashes and objects other addresses."""
    outputs = []
    for hash_seed in ("1", "2"):
        done = simulated("1000-1001", hash_seed)
        reports = [line for line in done.stdout.splitlines() if line.startswith("seed ")]
        assert len(reports) == 2, done.stderr[-2000:]
        outputs.append(reports)
    assert outputs[0] == outputs[1]
    assert len({line.split("trace=")[1] for line in outputs[0]}) == 2, "seeds differ"
