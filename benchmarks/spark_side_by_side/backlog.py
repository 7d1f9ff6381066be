"""The memory of a query that has a large backlog, compared with that of a query with a small one."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

from penstock.bench.loadgen import Loadgen
from side_by_side.data import Data as RawData
from side_by_side.session import Measurement, RunFailed
from spark_side_by_side.queries import Query
from spark_side_by_side.session import PARTITIONS, Session

GB = 1e9
VALUE_BYTES = 1024
PEAK_SMALL_MB, PEAK_LARGE_MB = "peak_small_mb", "peak_large_mb"
FREE_GB_MIN = 5
_FILL_TIMEOUT_S = 600


@dataclass(frozen=True)
class BacklogMemory:
    """Two backlogs, each read in one batch by its own process, whose peak memory is measured.

    The sizes are those of the values, of 1 KiB each.
    """

    small_gb: float = 2
    large_gb: float = 20

    def run(self, session: Session) -> Measurement:
        """Measure both backlogs. Raises RunFailed."""
        peaks: dict[str, float] = {}
        measured = None
        for name, gb in ((PEAK_SMALL_MB, self.small_gb), (PEAK_LARGE_MB, self.large_gb)):
            topic = session.topics.create("backlog")
            try:
                self._fill(session, topic, gb * GB * session.topics.scale)
                with session.new_process() as spark:
                    measured = spark.run(Query("read", topic), leave_out=0)
                peaks[name] = measured.peak_bytes / 1e6
            finally:
                session.topics.delete([topic])
        assert measured is not None
        return Measurement(
            seconds=measured.seconds,
            records=measured.rows,
            mb=measured.rows * VALUE_BYTES / 1e6,
            resident_mb=peaks[PEAK_LARGE_MB],
            facts=peaks,
        )

    @staticmethod
    def _fill(session: Session, topic: str, payload_bytes: float) -> None:
        free_gb = shutil.disk_usage(session.directory).free / GB
        if free_gb - payload_bytes / GB < FREE_GB_MIN:
            raise RunFailed(
                f"a backlog of {payload_bytes / GB:.0f} GB does not fit: {free_gb:.0f} GB are free"
            )
        data = RawData(VALUE_BYTES)
        requests = int(payload_bytes / (data.per_batch * VALUE_BYTES * PARTITIONS)) + 1
        options = {
            "batches": data.file(session.directory),
            "requests": requests,
            "partitions": PARTITIONS,
            "per_request": PARTITIONS,  # one batch for each partition
            "connections": 2,
        }
        words = Loadgen().raw_command("produce", session.servers, topic, **options)
        done = subprocess.run(words, capture_output=True, text=True, timeout=_FILL_TIMEOUT_S, check=False)
        if done.returncode:
            raise RunFailed(f"the backlog was not written: {done.stderr.strip()}")
