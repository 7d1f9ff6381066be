"""Fixtures that every part of the suite shares, and which tests have to run on one worker."""

from pathlib import Path

import pytest
from filelock import FileLock

from kafka_node import record_classes
from maven_jars import cache_root, jars_of

KAFKA_VERSION = "4.3.1"
TESTS = Path(__file__).parent
CLIENTS = TESTS / "clients"

#: Modules whose tests share what takes seconds to make: nodes, programs in Java, a year of flights. Without a
#: group pytest-xdist gives every worker some of the tests, and each makes it.
SHARING = frozenset(
    {
        "arrow/test_reading_page.py",
        "broker/test_metadata_apis.py",
        "cli/test_cluster_commands.py",
        "cli/test_txn_commands.py",
        "clients/test_spark_kafka_connector.py",
        "cluster/test_kafka_tools.py",
        "cluster/test_three_nodes.py",
        "demo/test_demo_application.py",
        "demo/test_demo_data.py",
        "metadata/test_controller_kafka.py",
        "model/test_wire_faults.py",
        "streams/test_kafka_streams.py",
        "streams/test_operators_kafka.py",
        "views/test_view_cluster.py",
        "views/test_view_http.py",
    }
)


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """The directory with Apache Kafka's jars (the target release), or a skip that says why not."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_root() / "kafka.lock"):
        libs = jars_of(CLIENTS / "kafka_pom.xml", f"kafka-{KAFKA_VERSION}")
        record_classes(libs)
        return libs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests on one worker that share a Spark session, or anything else that takes seconds to make."""
    for item in items:
        place = item.path.relative_to(TESTS)
        if place.parts[0] == "pipeline":
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif place.as_posix() in SHARING:
            item.add_marker(pytest.mark.xdist_group(place.stem))
