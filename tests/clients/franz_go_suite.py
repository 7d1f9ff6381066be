"""franz-go's own tests against three Penstock nodes: groups and transactions that it chains three deep.

    python tests/clients/franz_go_suite.py                   # every test of kgo that needs a broker
    python tests/clients/franz_go_suite.py --run TestTxnEtl  # those whose names match
    python tests/clients/franz_go_suite.py --faults kill     # while one node after the other is killed
    python tests/clients/franz_go_suite.py --on-kafka        # on Apache Kafka, for comparison

The tests ship in the Go module github.com/twmb/franz-go, which Go fetches and builds in a cache outside the
repository. TestGroupETL and TestTxnEtl are the heart of it: records go through four topics of three replicas,
by members that come, go and leave work uncommitted, and no record may be missing, double or out of order.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

sys.path.insert(0, str(Path(__file__).parents[1]))
from maven_jars import cache_root, jars_of
from several_nodes import SeveralNodes, kafka_nodes, penstock_nodes

MODULE = "github.com/twmb/franz-go@v1.22.2"
TARGET_RELEASE = "4.3.1"
# All that talk to a broker, but for share groups, SCRAM and the regular expressions of newer consumer groups.
TESTS = (
    "TestUnknownGroupOffsetFetchPinned|TestPing|TestIssue|TestConsumeTopic|TestConsumeRegex$|TestConsumeMax"
    "|TestDirectPartitionPurge|TestAddRemovePartitions|TestPause|TestPooling|TestGroupSimple|TestHookPollStart$"
    "|TestClient_Produce|TestGroupETL|TestTxnEtl"
)
CONFIG = {"default.replication.factor": "3", "offsets.topic.num.partitions": "12"}
FAULT_EVERY_S = 8.0
DOWN_S = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", default=TESTS, help="a pattern of tests' names")
    parser.add_argument("--records", type=int, default=50_000, help="through each chain (500000)")
    parser.add_argument("--faults", choices=("stop", "kill"), help="to one node after the other, meanwhile")
    parser.add_argument("--on-kafka", action="store_true", help="three nodes of Apache Kafka instead")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds")
    parser.add_argument("--keep", type=Path, help="where to leave data and logs")
    arguments = parser.parse_args()
    program = build()
    with tempfile.TemporaryDirectory(prefix="franz-go-") as scratch:
        directory = arguments.keep or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        with three_nodes(directory, on_kafka=arguments.on_kafka) as nodes, faults(nodes, arguments.faults):
            log = run(program, nodes.bootstrap_servers, arguments, directory / "tests.log")
    results = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+) \((.*)s\)", log, flags=re.MULTILINE)
    for result, name, seconds in results:
        print(f"{result} {float(seconds):8.1f} s  {name}")
    for line in re.findall(r"^panic: .*|.*sendErr.*", log, flags=re.MULTILINE)[:20]:
        print(line.strip())
    finished = log.rstrip().endswith("PASS")
    counts = {kind.lower(): sum(found[0] == kind for found in results) for kind in ("PASS", "FAIL", "SKIP")}
    print(json.dumps({"franz-go": MODULE, "finished": finished, **counts}))
    return not finished


def build() -> Path:
    """Fetch and build the tests once."""
    home = cache_root() / "franz-go-suite"
    program = home / f"{MODULE.rpartition('@')[2]}.test"
    if not program.exists():
        home.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "GOMODCACHE": str(home / "modules"), "GOFLAGS": "-modcacherw"}
        fetched = subprocess.check_output(
            ["go", "mod", "download", "-json", MODULE], cwd=home, env=environment
        )
        source = json.loads(fetched)["Dir"]
        command = ["go", "test", "-c", "-o", str(program), "./pkg/kgo"]
        subprocess.run(command, cwd=source, env=environment, check=True)
    return program


def three_nodes(directory: Path, *, on_kafka: bool) -> SeveralNodes:
    """Not started yet."""
    if on_kafka:
        libs = jars_of(Path(__file__).with_name("kafka_pom.xml"), f"kafka-{TARGET_RELEASE}")
        return kafka_nodes(libs, directory, dynamic_quorum=True, config=CONFIG)
    return penstock_nodes(directory, dynamic_quorum=True, config=CONFIG)


@contextmanager
def faults(nodes: SeveralNodes, kind: str | None) -> Iterator[None]:
    """Stop or kill one node after the other while the block runs, and start it again."""
    over = Event()

    def disturb() -> None:
        order = list(nodes.nodes.values())
        while not over.wait(FAULT_EVERY_S):
            node = order.pop(0)
            order.append(node)
            node.stop() if kind == "stop" else node.kill()
            print(f"{time.strftime('%H:%M:%S')} {kind} {node.bootstrap_servers}", flush=True)
            over.wait(DOWN_S)
            node.start()

    disturber = Thread(target=disturb, name="disturber")
    if kind is not None:
        disturber.start()
    try:
        yield
    finally:
        over.set()
        if kind is not None:
            disturber.join()


def run(program: Path, bootstrap_servers: str, arguments: argparse.Namespace, log_file: Path) -> str:
    """Run the tests; what they wrote."""
    environment = {
        **os.environ,
        "KGO_SEEDS": bootstrap_servers,
        "KGO_TEST_RF": "3",
        "KGO_TEST_RECORDS": str(arguments.records),
        "KGO_TEST_UNSAFE": "1",  # transactions that begin while the last one ends
    }
    words = [f"-test.run={arguments.run}", "-test.v", f"-test.timeout={arguments.timeout}s"]
    with log_file.open("wb") as output:
        subprocess.run([str(program), *words], env=environment, stdout=output, stderr=output, check=False)
    return log_file.read_text(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
