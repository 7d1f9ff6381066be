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


pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]


def run_program(name: str, jars: list[Path], scratch: Path) -> str:
    """Run a program of this directory against a node; what it prints."""
    with Cluster() as node:
        arguments = [",".join(map(str, jars)), node.bootstrap_servers, str(scratch)]
        done = subprocess.run(
            [sys.executable, str(HERE / name), *arguments],
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def test_sparks_own_connector(connector_jars: list[Path], tmp_path: Path) -> None:
    assert "the connector and the source agree" in run_program(
        "spark_kafka_connector.py", connector_jars, tmp_path
    )


def test_the_same_options_mean_the_same(connector_jars: list[Path], tmp_path: Path) -> None:
    assert "both sources agree in" in run_program("spark_source_options.py", connector_jars, tmp_path)
