"""kafkajs's own tests of SASL, TLS and ACLs on three secured nodes; writes docs/compatibility.md.

    python tests/clients/kafkajs_suite.py --source DIRECTORY
    python tests/clients/kafkajs_suite.py --source DIRECTORY --run createAcls
    python tests/clients/kafkajs_suite.py --source DIRECTORY --on-kafka --run createAcls

The directory is a clone of kafkajs's repository that has the tag below, because its package has no tests. npm
fetches what they need into a cache outside the repository. The nodes match `docker-compose.2_4.yml`: each has
a listener with PLAINTEXT, SSL and SASL_SSL, at the ports that the tests contain. With `--run`, only files
whose names match run, and the document is left alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from secured_nodes import AUTHORIZER, sasl_of_nodes
from suites_table import Counts, write_row

from certificates import Authority
from maven_jars import cache_root, jars_of
from round_trips import by_confluent_kafka
from several_nodes import SeveralNodes, kafka_nodes, penstock_nodes

TAG = "v2.2.4"
TARGET_RELEASE = "4.3.1"
TIMEOUT_S = 580
NODES = 3
FIRST_PORT = 9092  # and the following ones: the tests contain them
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_SSL")
TESTS = (
    r"admin/__tests__/(createAcls|describeAcls|deleteAcls|connection)\."
    r"|broker/__tests__/(connect|disconnect|reauthenticate)\."
    r"|consumer/__tests__/connection\.|producer/index\.|network/connection\.|saslAuthenticator/"
)
PLAIN_USERS = {"test": "testtest", "alice": "alicealice", "bob": "bobbob"}
SCRAM_USER = "[name=testscram,password=testtestscram={}]"
CONFIG = {"default.replication.factor": "2", "num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, required=True, help="a clone of the project's repository")
    parser.add_argument("--run", help="a pattern of files' names")
    parser.add_argument("--on-kafka", action="store_true", help="three nodes of Apache Kafka instead")
    parser.add_argument("--keep", type=Path, help="where to leave data and logs")
    arguments = parser.parse_args()
    tree = prepare(arguments.source)
    with tempfile.TemporaryDirectory(prefix="kafkajs-") as scratch:
        directory = arguments.keep or Path(scratch)
        with three_nodes(directory, on_kafka=arguments.on_kafka):
            # kafkajs gives up if a group's coordinator still loads, as it does for the first group.
            by_confluent_kafka({"bootstrap.servers": f"localhost:{FIRST_PORT}", "log_level": 0}, "first")
            counts = run_tests(tree, arguments.run or TESTS)
    if not arguments.run and not arguments.on_kafka:
        write_row(
            f"kafkajs {TAG}, files about security",
            "three nodes with ACLs: PLAINTEXT, SSL, SASL_SSL with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
            counts,
            "they need OAUTHBEARER",
        )
    return counts.failed > 0


def prepare(source: Path) -> Path:
    """Check the tag out and install what its tests need, once; return the work tree."""
    tree = cache_root() / "kafkajs-suite" / TAG
    if not (tree / "node_modules" / ".package-lock.json").exists():
        tree.parent.mkdir(parents=True, exist_ok=True)
        clone = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--branch", TAG]
        if not tree.exists():
            subprocess.run([*clone, f"file://{source.resolve()}", str(tree)], check=True)
        install = ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(install, cwd=tree, check=True)
    return tree


def three_nodes(directory: Path, *, on_kafka: bool) -> SeveralNodes:
    """The nodes, not started yet."""
    if on_kafka:
        libs = jars_of(Path(__file__).with_name("kafka_pom.xml"), f"kafka-{TARGET_RELEASE}")
        made = kafka_nodes(libs, directory, NODES, dynamic_quorum=True, config=CONFIG)
    else:
        made = penstock_nodes(directory, NODES, dynamic_quorum=True, config=CONFIG)
    authority = Authority(directory / "authority")
    for node_id, node in made.nodes.items():
        port = FIRST_PORT + (node_id - 1) * len(PROTOCOLS)
        listeners = {name: f"localhost:{port + at}" for at, name in enumerate(PROTOCOLS)}
        listeners["CONTROLLER"] = made.controllers[node_id]
        node.config |= {
            **AUTHORIZER,
            **sasl_of_nodes("SASL_SSL", PLAIN_USERS),
            "super.users": "User:node;User:ANONYMOUS",
            "inter.broker.listener.name": "SASL_SSL",
            "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in PROTOCOLS)]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.server.store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.certificate),
        }
        for bits in ("256", "512"):
            node.format_words += ["--add-scram", f"SCRAM-SHA-{bits}={SCRAM_USER.format(bits)}"]
    return made


def run_tests(tree: Path, pattern: str) -> Counts:
    """Run the files whose paths match; print what failed."""
    report = tree / "report.json"
    words = ["--runInBand", "--forceExit", "--no-watchman", "--json", f"--outputFile={report}"]
    environment = {**os.environ, "NODE_ENV": "test", "KAFKA_VERSION": "2.4", "CI": "1"}
    report.unlink(missing_ok=True)
    subprocess.run(
        ["npx", "jest", *words, f"--testPathPattern={pattern}"],
        cwd=tree,
        env=environment,
        stdout=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=False,
    )
    results = json.loads(report.read_text())
    for file in results["testResults"]:
        print(f"{file['status']:8}{Path(file['name']).relative_to(tree)}")
        for test in file["assertionResults"]:
            if test["status"] == "failed":
                print("FAILED", test["fullName"], *test["failureMessages"], sep="\n")
    pending = results["numPendingTests"] + results["numTodoTests"]
    counts = Counts(results["numPassedTests"], results["numFailedTests"], pending)
    print(json.dumps(counts._asdict()))
    return counts


if __name__ == "__main__":
    sys.exit(main())
