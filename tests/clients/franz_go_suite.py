"""franz-go's own tests against three Penstock nodes: chains of three groups or transactions.

    python tests/clients/franz_go_suite.py                   # every test of kgo that needs a broker
    python tests/clients/franz_go_suite.py --run TestTxnEtl  # the tests whose names match
    python tests/clients/franz_go_suite.py --restarts      # while one node after the other stops and starts
    python tests/clients/franz_go_suite.py --on-kafka        # on Apache Kafka, for comparison

The tests ship in the Go module github.com/twmb/franz-go, which Go fetches and builds in a cache outside the
repository. The main tests are TestGroupETL and TestTxnEtl: records pass through four topics of three
replicas, by members that join, leave and abandon uncommitted work, and no record may be missing,
duplicated or out of order. With restarts not every failure is the broker's fault: the tests create topics
of three replicas, which two nodes reject, and treat every error of a client as a failure, such as the end
of a group that was forming.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from threading import Event

sys.path.insert(0, str(Path(__file__).parents[1]))
from go_tests import build_tests, run_tests

from maven_jars import jars_of
from several_nodes import SeveralNodes, kafka_nodes, penstock_nodes

MODULE = "github.com/twmb/franz-go@v1.22.2"
TARGET_RELEASE = "4.3.1"
# All tests with a broker except share groups, SCRAM and regular expressions of newer consumer groups.
TESTS = (
    "TestUnknownGroupOffsetFetchPinned|TestPing|TestIssue|TestConsumeTopic|TestConsumeRegex$|TestConsumeMax"
    "|TestDirectPartitionPurge|TestAddRemovePartitions|TestPause|TestPooling|TestGroupSimple|TestHookPollStart$"
    "|TestClient_Produce|TestGroupETL|TestTxnEtl"
)
CONFIG = {"default.replication.factor": "3", "offsets.topic.num.partitions": "12"}
RESTART_EVERY_S = 8.0
DOWN_S = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", default=TESTS, help="a pattern of tests' names")
    parser.add_argument("--records", type=int, default=50_000, help="through each chain (500000)")
    parser.add_argument("--restarts", action="store_true", help="of one node after the other, meanwhile")
    parser.add_argument("--on-kafka", action="store_true", help="three nodes of Apache Kafka instead")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds")
    parser.add_argument("--keep", type=Path, help="where to leave data and logs")
    arguments = parser.parse_args()
    program = build_tests(MODULE, "./pkg/kgo")
    with tempfile.TemporaryDirectory(prefix="franz-go-") as scratch:
        directory = arguments.keep or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            nodes = stack.enter_context(three_nodes(directory, on_kafka=arguments.on_kafka))
            if arguments.restarts:
                stack.enter_context(restarts(nodes))
            environment = {
                "KGO_SEEDS": nodes.bootstrap_servers,
                "KGO_TEST_RF": "3",
                "KGO_TEST_RECORDS": str(arguments.records),
                "KGO_TEST_UNSAFE": "1",  # transactions that begin while the last one ends
            }
            log_file = directory / "tests.log"
            passed = run_tests(program, arguments.run, arguments.timeout, log_file, environment, directory)
    return not passed


def three_nodes(directory: Path, *, on_kafka: bool) -> SeveralNodes:
    """The nodes, not started yet."""
    if on_kafka:
        libs = jars_of(Path(__file__).with_name("kafka_pom.xml"), f"kafka-{TARGET_RELEASE}")
        return kafka_nodes(libs, directory, dynamic_quorum=True, config=CONFIG)
    return penstock_nodes(directory, dynamic_quorum=True, config=CONFIG)


@contextmanager
def restarts(nodes: SeveralNodes) -> Iterator[None]:
    """Stop and restart one node after the other while the block runs."""
    over = Event()

    def disturb() -> None:
        for node in cycle(nodes.nodes.values()):
            if over.wait(RESTART_EVERY_S):
                return
            node.stop()
            print(f"stopped {node.bootstrap_servers}", flush=True)
            over.wait(DOWN_S)
            node.start()

    with ThreadPoolExecutor(1, "restarts") as pool:
        disturbing = pool.submit(disturb)
        try:
            yield
        finally:
            over.set()
        disturbing.result()


if __name__ == "__main__":
    sys.exit(main())
