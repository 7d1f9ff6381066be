"""Spark's own Kafka connector, unchanged, reads and writes a node; the source and sink agree with it."""

import os
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


pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.longer, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def found(connector_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of the checks of `spark_connector_session`, which have their own node."""
    with Cluster() as node:
        scratch = tmp_path_factory.mktemp("spark-connector")
        arguments = [",".join(map(str, connector_jars)), node.bootstrap_servers, str(scratch)]
        done = subprocess.run(
            [sys.executable, str(HERE / "spark_connector_session.py"), *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=570,
            check=False,
        )
    return f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"


def test_sparks_own_connector(found: str) -> None:
    assert "the connector and the source agree" in found


def test_the_same_options_mean_the_same(found: str) -> None:
    assert "both sources agree in" in found
