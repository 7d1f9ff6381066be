"""Apache Kafka's own jars, fetched by the ordinary Maven client into a cache outside the repository."""

import os
import shutil
import subprocess
from pathlib import Path

from penstock.protocol.api_keys import TARGET_RELEASE

POM = Path(__file__).parents[2] / "tests" / "clients" / "kafka_pom.xml"
FETCH_TIMEOUT_S = 600


class JarsUnavailable(RuntimeError):
    """Apache Kafka cannot be had or run here; the message says why."""


def cache_root() -> Path:
    """Where fetched jars live between runs, shared with the tests; PENSTOCK_TEST_CACHE moves it."""
    return Path(os.environ.get("PENSTOCK_TEST_CACHE", Path.home() / ".cache" / "penstock"))


def kafka_jars() -> Path:
    """The directory with the server, the tools and all that they depend on.

    Raises:
        JarsUnavailable: Java or Maven is missing, or Maven Central is out of reach.
    """
    directory = cache_root() / f"kafka-{TARGET_RELEASE}"
    if shutil.which("java") is None:
        raise JarsUnavailable(
            "java is not installed, so Apache Kafka cannot run (Debian: apt install openjdk-17-jre)"
        )
    if (directory / ".complete").exists():
        return directory
    if shutil.which("mvn") is None:
        raise JarsUnavailable(
            "mvn is not installed, so Apache Kafka cannot be fetched (Debian: apt install maven)"
        )
    directory.mkdir(parents=True, exist_ok=True)
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(POM),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={directory}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode != 0:
        reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), "unknown error")
        raise JarsUnavailable(
            f"Maven Central is not reachable, so Apache Kafka cannot be fetched: {reason[:300]}"
        )
    (directory / ".complete").touch()
    return directory
