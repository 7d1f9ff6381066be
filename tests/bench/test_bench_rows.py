"""`penstock bench`, each row with few records: it measures something, and scripts can read its output."""

import json
import shutil
import subprocess
import sys

import pytest

from penstock.testing import Cluster


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="needs a C compiler")
def test_every_row_is_measured(penstock_cluster: Cluster) -> None:
    words = ["--bootstrap", penstock_cluster.bootstrap_servers, "--broker-pid", str(penstock_cluster.pid)]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "bench", *words, "--scale", "0.001", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    assert len(rows) == 6
    assert all(row["records"] >= 1000 for row in rows.values())
    assert all(row["records_per_s"] > 0 and row["broker_resident_mb"] > 0 for row in rows.values())
    assert 0 < rows["latency at 1,000/s"]["p50_ms"] <= rows["latency at 1,000/s"]["p99_ms"]
