"""kafkajs's own tests of SASL, TLS and ACLs on three secured nodes; writes docs/compatibility.md.

    python tests/clients/kafkajs_suite.py --source DIRECTORY
    python tests/clients/kafkajs_suite.py --source DIRECTORY --oauthbearer
    python tests/clients/kafkajs_suite.py --source DIRECTORY --run createAcls
    python tests/clients/kafkajs_suite.py --source DIRECTORY --on-kafka --run createAcls

The directory is a clone of kafkajs's repository that has the tag below, because its package has no tests. npm
fetches what they need into a cache outside the repository. The nodes match `docker-compose.2_4.yml`: each has
a listener with PLAINTEXT, SSL and SASL_SSL, at the ports that the tests contain. With `--oauthbearer` they
match `docker-compose.2_4_oauthbearer.yml`, whose listener accepts tokens without a signature, and the tests
are those of kafkajs's `test:group:oauthbearer`. With `--run`, only files whose names match run, and the
document is left alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
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
OAUTHBEARER_TESTS = (
    r"src/producer/index\.spec|(broker|consumer|admin)/__tests__/(connect|connection|disconnect)\."
    r"|broker/__tests__/reauthenticate\."
)
OAUTHBEARER = {
    "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "connections.max.reauth.ms": "15000",
    "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="node";'
    ),
    "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
        "OAuthBearerUnsecuredValidatorCallbackHandler"
    ),
}
PLAIN_USERS = {"test": "testtest", "alice": "alicealice", "bob": "bobbob"}
SCRAM_USER = "[name=testscram,password=testtestscram={}]"
CONFIG = {"default.replication.factor": "2", "num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, required=True, help="a clone of the project's repository")
    parser.add_argument("--run", help="a pattern of files' names")
    parser.add_argument("--oauthbearer", action="store_true", help="the tests of OAUTHBEARER, on such nodes")
    parser.add_argument("--on-kafka", action="store_true", help="three nodes of Apache Kafka instead")
    parser.add_argument("--keep", type=Path, help="where to leave data and logs")
    arguments = parser.parse_args()
    tree = prepare(arguments.source)
    with tempfile.TemporaryDirectory(prefix="kafkajs-") as scratch:
        directory = arguments.keep or Path(scratch)
        extra = OAUTHBEARER if arguments.oauthbearer else {}
        with three_nodes(directory, extra, on_kafka=arguments.on_kafka):
            # kafkajs gives up if a group's coordinator still loads, as it does for the first group.
            by_confluent_kafka({"bootstrap.servers": f"localhost:{FIRST_PORT}", "log_level": 0}, "first")
            tests = arguments.run or (OAUTHBEARER_TESTS if arguments.oauthbearer else TESTS)
            counts = run_tests(tree, tests, oauthbearer=arguments.oauthbearer)
    if not arguments.run and not arguments.on_kafka:
        if arguments.oauthbearer:
            files, mechanisms, reason = "files about OAUTHBEARER", "OAUTHBEARER", "they need other mechanisms"
        else:
            files, mechanisms = "files about security", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"
            reason = "they need OAUTHBEARER"
        nodes = f"three nodes with ACLs: PLAINTEXT, SSL, SASL_SSL with {mechanisms}"
        write_row(f"kafkajs {TAG}, {files}", nodes, counts, reason)
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


def three_nodes(directory: Path, extra: Mapping[str, str], *, on_kafka: bool) -> SeveralNodes:
    """The nodes with extra settings, not started yet."""
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
            **extra,
        }
        for bits in ("256", "512"):
            node.format_words += ["--add-scram", f"SCRAM-SHA-{bits}={SCRAM_USER.format(bits)}"]
    return made


def run_tests(tree: Path, pattern: str, *, oauthbearer: bool) -> Counts:
    """Run the files whose paths match; print what failed."""
    report = tree / "report.json"
    words = ["--runInBand", "--forceExit", "--no-watchman", "--json", f"--outputFile={report}"]
    environment = {**os.environ, "NODE_ENV": "test", "KAFKA_VERSION": "2.4", "CI": "1"}
    if oauthbearer:
        environment["OAUTHBEARER_ENABLED"] = "1"
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
