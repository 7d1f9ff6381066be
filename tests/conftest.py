"""Fixtures that every part of the suite shares."""

from pathlib import Path

import pytest
from filelock import FileLock

from maven_jars import cache_root, jars_of

KAFKA_VERSION = "4.3.1"
CLIENTS = Path(__file__).parent / "clients"


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """The directory with Apache Kafka's jars (the target release), or a skip that says why not."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_root() / "kafka.lock"):
        return jars_of(CLIENTS / "kafka_pom.xml", f"kafka-{KAFKA_VERSION}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the Spark tests on one worker: they share one session, which takes seconds to start."""
    for item in items:
        if "pipeline" in item.path.parts:
            item.add_marker(pytest.mark.xdist_group("spark"))
