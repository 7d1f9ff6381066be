"""Large buffers that are needed again and again take their memory from the kernel once."""

import subprocess
import sys

import pytest

MEASURED = """
import resource
from penstock.broker.setup.freed_memory import keep_freed_memory

def faults():
    for size in (700_000, 900_000, 1_500_000):
        for _ in range(3):
            buffers = [bytearray(size) for _ in range(8)]
            del buffers
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        buffers = [bytearray(900_000) for _ in range(8)]
        del buffers
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults() if keep_freed_memory() else "no such settings")
"""


def test_buffers_of_requests_are_not_mapped_anew() -> None:
    run = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, timeout=60)
    if run.stdout == "no such settings\n":
        pytest.skip("the C library of this machine has no such settings")
    assert int(run.stdout) < 20 * 8 * 900_000 // 4096 // 10, run.stderr
