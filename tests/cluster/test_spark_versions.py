"""The next version of Spark opens checkpoints of the previous one. The reverse is not guaranteed.

PENSTOCK_CLUSTERS=1 runs it. The older version is installed beside this environment for it: 450 MB, once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest
from committed_records import committed_records, make_topics
from confluent_kafka import Producer
from filelock import FileLock
from spark_version_query import COPIED, COUNTED, SOURCE, SUMS

from maven_jars import cache_root
from penstock.testing import Cluster

OLDER = "4.2.0"
KEYS = ("a1", "a2", "b1")
RUN_TIMEOUT_S = 120
INSTALL_TIMEOUT_S = 600

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300 + 600)]


@pytest.fixture
def older() -> Path:
    if "PENSTOCK_CLUSTERS" not in os.environ:
        pytest.skip("PENSTOCK_CLUSTERS is not set")
    directory = cache_root() / f"pyspark-{OLDER}"
    with FileLock(cache_root() / f"pyspark-{OLDER}.lock"):
        if not (directory / "pyspark").is_dir():
            words = ["install", "--quiet", "--no-deps", "--target", str(directory), f"pyspark=={OLDER}"]
            subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=INSTALL_TIMEOUT_S)
    return directory


def run(servers: str, directory: Path, *before: Path) -> str:
    """Run the query and return the version of Spark."""
    paths = [*map(str, before), *sys.path]
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("spark_version_query.py"), servers, directory],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.split()[0]


def write(servers: str, start: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(start, start + count):
        place = number % len(KEYS)
        producer.produce(SOURCE, str(number), KEYS[place], partition=place % 2)  # one sequence per key
    assert producer.flush(30) == 0


def test_source_sink_and_application_go_on_with_the_next_version(older: Path, tmp_path: Path) -> None:
    with Cluster() as cluster:
        servers = cluster.bootstrap_servers
        make_topics(servers, 2, SOURCE, COPIED, COUNTED, SUMS)
        write(servers, 0, 30)
        assert run(servers, tmp_path, older) == OLDER
        write(servers, 30, 30)
        assert run(servers, tmp_path) == pyspark.__version__ != OLDER
        assert Counter(value for _, value in committed_records(servers, COPIED)) == Counter(
            map(str, range(60))
        )
        # Every count once: state was neither lost nor applied twice.
        assert sorted((key, int(value)) for key, value in committed_records(servers, COUNTED)) == [
            (key, count) for key in KEYS for count in range(1, 21)
        ]
        assert dict(committed_records(servers, SUMS)) == {"a": "40", "b": "20"}
