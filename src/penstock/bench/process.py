"""Read the cost of a process from /proc (Linux)."""

import os
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class ProcessCost(NamedTuple):
    """Processor seconds (user and system) since the process started, and its resident memory now."""

    cpu_seconds: float
    resident_bytes: int


def process_cost(pid: int) -> ProcessCost:
    """Read the cost of process *pid*.

    Raises:
        ProcessLookupError: there is no such process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None
    fields = stat.rpartition(")")[2].split()  # the command name before it may contain spaces
    utime_ticks, stime_ticks = int(fields[11]), int(fields[12])
    resident_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return ProcessCost((utime_ticks + stime_ticks) / _TICKS_PER_SECOND, resident_kib * 1024)
