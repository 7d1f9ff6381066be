"""Apache Kafka's own jars, fetched by the ordinary Maven client into a cache outside the repository."""

import os
import shutil
import subprocess
from pathlib import Path

from penstock.protocol.api_keys import TARGET_RELEASE

POMS = Path(__file__).parents[2] / "tests" / "clients"
SPARK_CONNECTOR = "4.2.0"
"""The newest release on Maven Central when this was written; it runs on Spark 4.3."""
FETCH_TIMEOUT_S = 600


class JarsUnavailable(RuntimeError):
    """Apache Kafka cannot be fetched or run here; the message says why."""


def cache_root() -> Path:
    """The directory of jars kept between runs and shared with the tests; PENSTOCK_TEST_CACHE moves it."""
    return Path(os.environ.get("PENSTOCK_TEST_CACHE", Path.home() / ".cache" / "penstock"))


def kafka_jars() -> Path:
    """Return the directory with the server, the tools and all their dependencies.

    Raises:
        JarsUnavailable: Java or Maven is missing, or Maven Central is not reachable.
    """
    return _fetched("Apache Kafka", POMS / "kafka_pom.xml", f"kafka-{TARGET_RELEASE}")


def spark_connector_jars() -> list[Path]:
    """Return Spark's own Kafka connector with its dependencies beyond Spark's jars.

    Raises JarsUnavailable.
    """
    directory = _fetched(
        "Spark's Kafka connector", POMS / "spark_kafka_pom.xml", f"spark-kafka-{SPARK_CONNECTOR}"
    )
    return sorted(directory.glob("*.jar"))


def _fetched(what: str, pom: Path, name: str) -> Path:
    directory = cache_root() / name
    if shutil.which("java") is None:
        raise JarsUnavailable(
            f"java is not installed, so {what} cannot run (Debian: apt install openjdk-17-jre)"
        )
    if (directory / ".complete").exists():
        return directory
    if shutil.which("mvn") is None:
        raise JarsUnavailable(
            f"mvn is not installed, so {what} cannot be fetched (Debian: apt install maven)"
        )
    directory.mkdir(parents=True, exist_ok=True)
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command.append(f"-DoutputDirectory={directory}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode != 0:
        reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), "unknown error")
        raise JarsUnavailable(f"Maven Central is not reachable, so {what} cannot be fetched: {reason[:300]}")
    (directory / ".complete").touch()
    return directory
