"""franz-go's own tests against three Penstock nodes: chains of three groups or transactions.

    python tests/clients/franz_go_suite.py                   # every test of kgo that needs a broker
    python tests/clients/franz_go_suite.py --run TestTxnEtl  # the tests whose names match
    python tests/clients/franz_go_suite.py --restarts      # while one node after the other stops and starts
    python tests/clients/franz_go_suite.py --secured         # over TLS with certificates, and SCRAM
    python tests/clients/franz_go_suite.py --on-kafka        # on Apache Kafka, for comparison

The tests ship in the Go module github.com/twmb/franz-go, which Go fetches and builds in a cache outside the
repository. The main tests are TestGroupETL and TestTxnEtl: records pass through four topics of three
replicas, by members that join, leave and abandon uncommitted work, and no record may be missing,
duplicated or out of order. With restarts not every failure is the broker's fault: the tests create topics
of three replicas, which two nodes reject, and treat every error of a client as a failure, such as the end
of a group that was forming.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from threading import Event

sys.path.insert(0, str(Path(__file__).parents[1]))
from go_tests import build_tests, counts_of, run_tests
from secured_nodes import PASSWORD, USER, Security, sasl_of_nodes, settings_of_nodes
from suites_table import write_row

from certificates import Authority
from kafka_node import free_port
from maven_jars import jars_of
from several_nodes import SeveralNodes, kafka_nodes, penstock_nodes

MODULE = "github.com/twmb/franz-go@v1.22.2"
TARGET_RELEASE = "4.3.1"
# All tests with a broker except share groups and regular expressions of newer consumer groups.
TESTS = (
    "TestUnknownGroupOffsetFetchPinned|TestPing|TestIssue|TestConsumeTopic|TestConsumeRegex$|TestConsumeMax"
    "|TestDirectPartitionPurge|TestAddRemovePartitions|TestPause|TestPooling|TestGroupSimple|TestHookPollStart$"
    "|TestClient_Produce|TestGroupETL|TestTxnEtl"
)
TESTS_OF_SCRAM = "TestSCRAMAuth"
WITHOUT_TLS = "TestIssue769"  # it has a dialer of its own, which franz-go refuses beside TLS
CONFIG = {"default.replication.factor": "3", "offsets.topic.num.partitions": "12"}
RESTART_EVERY_S = 8.0
DOWN_S = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", help="a pattern of tests' names")
    parser.add_argument("--records", type=int, default=50_000, help="through each chain (500000)")
    parser.add_argument("--restarts", action="store_true", help="of one node after the other, meanwhile")
    parser.add_argument("--secured", action="store_true", help="over TLS with certificates, and SCRAM")
    parser.add_argument("--on-kafka", action="store_true", help="three nodes of Apache Kafka instead")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds")
    parser.add_argument("--keep", type=Path, help="where to leave data and logs")
    arguments = parser.parse_args()
    program = build_tests(MODULE, "./pkg/kgo")
    pattern = arguments.run or (f"{TESTS}|{TESTS_OF_SCRAM}" if arguments.secured else TESTS)
    with tempfile.TemporaryDirectory(prefix="franz-go-") as scratch:
        directory = arguments.keep or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            nodes = three_nodes(directory, on_kafka=arguments.on_kafka)
            environment = secure(nodes, directory) if arguments.secured else {}
            stack.enter_context(nodes)
            if arguments.restarts:
                stack.enter_context(restarts(nodes))
            environment |= {
                "KGO_SEEDS": nodes.bootstrap_servers,
                "KGO_TEST_RF": "3",
                "KGO_TEST_RECORDS": str(arguments.records),
                "KGO_TEST_UNSAFE": "1",  # transactions that begin while the last one ends
            }
            log_file = directory / "tests.log"
            left_out = WITHOUT_TLS if arguments.secured else ""
            passed = run_tests(
                program, pattern, arguments.timeout, log_file, environment, directory, left_out
            )
            log = log_file.read_text(errors="replace")
    is_whole = not (arguments.run or arguments.restarts or arguments.on_kafka) and "\npanic: " not in log
    if arguments.secured and is_whole:
        write_row(
            f"`{MODULE}`, `kgo`",
            "three nodes, SSL with certificates of clients; two tests SASL_PLAINTEXT with SCRAM-SHA-256",
            counts_of(log),
            f"it needs an older node; {WITHOUT_TLS} is left out",
        )
    return not passed


def three_nodes(directory: Path, *, on_kafka: bool) -> SeveralNodes:
    """The nodes, not started yet."""
    if on_kafka:
        libs = jars_of(Path(__file__).with_name("kafka_pom.xml"), f"kafka-{TARGET_RELEASE}")
        return kafka_nodes(libs, directory, dynamic_quorum=True, config=CONFIG)
    return penstock_nodes(directory, dynamic_quorum=True, config=CONFIG)


def secure(nodes: SeveralNodes, directory: Path) -> dict[str, str]:
    """Secure the nodes before their start; return the environment of the tests.

    All connections have TLS and two certificates, except those of the tests of SCRAM, which know no TLS and
    use a listener of their own.
    """
    authority = Authority(directory / "authority")
    settings = settings_of_nodes(Security("SSL"), authority)
    protocols = settings["listener.security.protocol.map"]
    for node in nodes.nodes.values():
        node.config |= {
            **settings,
            **sasl_of_nodes("SCRAM"),
            "ssl.client.auth": "required",
            "listener.security.protocol.map": f"{protocols},SCRAM:SASL_PLAINTEXT",
            "listeners": f"{node.config['listeners']},SCRAM://127.0.0.1:{free_port()}",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        node.format_words += ["--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"]
    [seed] = re.findall(r"SCRAM://([\d.:]+)", nodes.nodes[1].config["listeners"])
    client = authority.client
    return {
        "KGO_TEST_TLS": f"ca:{authority.certificate},cert:{client.chain},key:{client.key}",
        "KGO_TEST_SCRAM": f"{USER}:{PASSWORD}:256",
        "KGO_TEST_SCRAM_SEEDS": seed,
    }


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
