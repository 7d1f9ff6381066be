"""The integration tests of Apache Kafka Connect and MirrorMaker, whose workers run on nodes of Penstock.

    python tests/connect/suite/connect_suite.py                            # all
    python tests/connect/suite/connect_suite.py OffsetsApiIntegrationTest   # these classes
    python tests/connect/suite/connect_suite.py --on-kafka                 # on Kafka, for comparison

The tests ship in the test jars of connect-runtime and connect-mirror 4.3.1, and run as they are. Our class
`KafkaClusterTestKit` takes the place of the one by which they start Kafka's brokers. Maven and Java are
needed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parents[2]))
from maven_jars import cache_root, jars_of

BESIDE = Path(__file__).parent
CONNECT = "org.apache.kafka.connect.integration."
MIRROR = "org.apache.kafka.connect.mirror.integration."
CLASSES = {
    CONNECT: """
        BlockingConnectorTest ConnectWorkerIntegrationTest ConnectorClientPolicyIntegrationTest
        ConnectorRestartApiIntegrationTest ConnectorTopicsIntegrationTest ConnectorValidationIntegrationTest
        ErrorHandlingIntegrationTest ExactlyOnceSourceIntegrationTest ExampleConnectIntegrationTest
        InternalTopicsIntegrationTest OffsetsApiIntegrationTest RebalanceSourceConnectorsIntegrationTest
        RestExtensionIntegrationTest RestForwardingIntegrationTest SessionedProtocolIntegrationTest
        SinkConnectorsIntegrationTest SourceConnectorsIntegrationTest StandaloneWorkerIntegrationTest
        TransformationIntegrationTest
    """,
    MIRROR: """
        DedicatedMirrorIntegrationTest IdentityReplicationIntegrationTest
        MirrorConnectorsIntegrationExactlyOnceTest MirrorConnectorsIntegrationSSLTest
        MirrorConnectorsIntegrationTransactionsTest MirrorConnectorsWithCustomForwardingAdminIntegrationTest
    """,
}
"""The classes by their packages."""
TIMEOUT_S = 3600.0
"""The limit for the tests of one class."""


class Outcome(NamedTuple):
    """The result of one test: passed, failed or skipped, and why."""

    test: str
    result: str
    reason: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("classes", nargs="*", help="names of classes; default: all")
    parser.add_argument("--on-kafka", action="store_true", help="with Kafka's own brokers")
    arguments = parser.parse_args()
    libs = jars_of(BESIDE / "suite_pom.xml", "connect-suite-4.3.1")
    own = [] if arguments.on_kafka else [compiled(libs)]
    outcomes: list[Outcome] = []
    for package, names in CLASSES.items():
        for name in names.split():
            if not arguments.classes or name in arguments.classes:
                found = run(libs, own, package + name)
                outcomes += found
                for each in found:
                    print(f"{each.result:8}{each.test} {each.reason}", flush=True)
    results = [each.result for each in outcomes]
    print(", ".join(f"{results.count(kind)} {kind}" for kind in ("passed", "failed", "skipped")))
    return "failed" in results


def compiled(libs: Path) -> Path:
    """Compile the class that starts Penstock, and return the directory of classes."""
    classes = cache_root() / "connect-suite-classes"
    source = str(BESIDE / "KafkaClusterTestKit.java")
    subprocess.run(["javac", "-nowarn", "-d", str(classes), "-cp", f"{libs}/*", source], check=True)
    return classes


def run(libs: Path, before: Sequence[Path], name: str) -> list[Outcome]:
    """Run the tests of one class."""
    with tempfile.TemporaryDirectory(prefix="connect-suite-") as directory:
        logging = Path(directory) / "log4j2.properties"
        logging.write_text("rootLogger.level=OFF\n")
        path = os.pathsep.join([*map(str, before), f"{libs}/*"])
        words = ["java", "-Xmx1g", f"-Dpenstock.python={sys.executable}"]
        words += [f"-Dlog4j2.configurationFile={logging}", "-cp", path]
        words += ["org.junit.platform.console.ConsoleLauncher", "execute", "-c", name]
        words += ["--details=none", "--disable-banner", "--reports-dir", directory]
        try:
            subprocess.run(words, capture_output=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return [Outcome(name, "failed", f"it did not end within {TIMEOUT_S:g} s")]
        found = [outcome for file in Path(directory).glob("*.xml") for outcome in outcomes_in(file)]
    return found or [Outcome(name, "failed", "it reported nothing")]


def outcomes_in(file: Path) -> list[Outcome]:
    """Read the outcomes in a report of JUnit."""
    outcomes = []
    for case in ElementTree.parse(file).iter("testcase"):
        test = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        if problem is not None:
            reason = re.sub(r"\s+", " ", problem.get("message") or problem.get("type") or "")
            outcomes.append(Outcome(test, "failed", reason[:300]))
        elif case.find("skipped") is not None:
            outcomes.append(Outcome(test, "skipped"))
        else:
            outcomes.append(Outcome(test, "passed"))
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
