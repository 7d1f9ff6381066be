"""Spark's own Kafka connector, unchanged, reads and writes a node; the source and sink agree with it."""

import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from maven_jars import cache_root, jars_of
from penstock.testing import Cluster

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def connector_jars() -> list[Path]:
    cache_root().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_root() / "spark-kafka.lock"):
        directory = jars_of(HERE / "spark_kafka_pom.xml", "spark-kafka-4.2.0")
    return sorted(directory.glob("*.jar"))


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_sparks_own_connector(connector_jars: list[Path], tmp_path: Path) -> None:
    with Cluster() as node:
        jars = ",".join(map(str, connector_jars))
        done = subprocess.run(
            [
                sys.executable,
                str(HERE / "spark_kafka_connector.py"),
                jars,
                node.bootstrap_servers,
                str(tmp_path),
            ],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    assert "the connector and the source agree" in done.stdout
