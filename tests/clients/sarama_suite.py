"""Sarama's functional tests against five Penstock nodes behind proxies that cut and delay their connections.

    python tests/clients/sarama_suite.py                   # all tests
    python tests/clients/sarama_suite.py --run TestFuncTxn  # the tests whose names match
    python tests/clients/sarama_suite.py --on-kafka        # on Apache Kafka, for comparison

The tests ship in the Go module github.com/IBM/sarama, and Toxiproxy is a Go module too; Go fetches and builds
both in a cache outside the repository. The nodes match Sarama's docker-compose.yml: five, each in its own
rack, with a listener for each other and one behind a proxy. Tests stop and start nodes with `docker compose`,
which a program of that name replaces here. Sarama skips the tests with Java clients in containers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

sys.path.insert(0, str(Path(__file__).parents[1]))
from go_tests import build_program, build_tests, run_tests, source_of

from kafka_node import free_port
from maven_jars import jars_of
from several_nodes import SeveralNodes, kafka_nodes, penstock_nodes

SARAMA = "github.com/IBM/sarama@v1.61.1"
TOXIPROXY = "github.com/Shopify/toxiproxy/v2@v2.5.0"
TARGET_RELEASE = "4.3.1"
NODES = 5
FIRST_PROXY = 29091  # Sarama's tests contain these ports
# All of functional_*_test.go.
TESTS = (
    "^(TestFunc.*|TestConsumerHighWaterMarkOffset|TestConsumerPartialBatchRecovery|TestVersionMatrix.*"
    "|TestReadOnlyAndAllCommittedMessages|TestConsumerGroupDeadlock|TestConsumerFetchFollowerFailover"
    "|TestInterceptors|TestAsyncProducerRemoteBrokerClosed)$"
)
CONFIG = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "2",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    "transaction.state.log.replication.factor": "2",
}
DOCKER = """#!/bin/sh
for service; do :; done
exec curl -sf -X POST {address}/$2/$service
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", default=TESTS, help="a pattern of tests' names")
    parser.add_argument("--on-kafka", action="store_true", help="five nodes of Apache Kafka instead")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds")
    parser.add_argument("--keep", type=Path, help="where to leave data and logs")
    arguments = parser.parse_args()
    program = build_tests(SARAMA, tags=["functional"])
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="sarama-"))
        directory = arguments.keep or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        nodes = five_nodes(directory, on_kafka=arguments.on_kafka)
        proxies = stack.enter_context(toxiproxy(nodes, directory))
        stack.enter_context(nodes)
        programs = stack.enter_context(docker_stand_in(nodes, directory))
        environment = {
            "TOXIPROXY_ADDR": proxies,
            "KAFKA_VERSION": TARGET_RELEASE,
            "PATH": f"{programs}:{os.environ['PATH']}",
        }
        log_file = directory / "tests.log"
        passed = run_tests(
            program, arguments.run, arguments.timeout, log_file, environment, source_of(SARAMA)
        )
    return not passed


def five_nodes(directory: Path, *, on_kafka: bool) -> SeveralNodes:
    """The nodes, not started yet, which advertise the addresses of the proxies."""
    racks = {node_id: str(node_id) for node_id in range(1, NODES + 1)}
    if on_kafka:
        libs = jars_of(Path(__file__).with_name("kafka_pom.xml"), f"kafka-{TARGET_RELEASE}")
        made = kafka_nodes(libs, directory, NODES, racks=racks, config=CONFIG)
    else:
        made = penstock_nodes(directory, NODES, racks=racks, config=CONFIG)
    for node_id, node in made.nodes.items():
        internal = f"INTERNAL://127.0.0.1:{free_port()}"
        controller = f"CONTROLLER://{made.controllers[node_id]}"
        proxy = f"LOCAL://localhost:{FIRST_PROXY + node_id - 1}"
        node.config |= {
            "listeners": f"LOCAL://{node.bootstrap_servers},{internal},{controller}",
            "advertised.listeners": f"{proxy},{internal}",
            "listener.security.protocol.map": "LOCAL:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        }
    return made


@contextmanager
def toxiproxy(nodes: SeveralNodes, directory: Path) -> Iterator[str]:
    """Run a proxy for each node and return the address of their server."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [str(build_program(TOXIPROXY, "cmd/server")), "-host", "127.0.0.1", "-port", str(port)]
    with (directory / "toxiproxy.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        await_http(f"{address}/version")
        for node_id, node in nodes.nodes.items():
            proxy = {
                "name": f"kafka{node_id}",
                "listen": f"127.0.0.1:{FIRST_PROXY + node_id - 1}",
                "upstream": node.bootstrap_servers,
                "enabled": True,
            }
            urllib.request.urlopen(f"{address}/proxies", json.dumps(proxy).encode()).close()
        yield address
    finally:
        server.kill()
        server.wait()


def await_http(url: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            urllib.request.urlopen(url).close()
            return
        except urllib.error.URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@contextmanager
def docker_stand_in(nodes: SeveralNodes, directory: Path) -> Iterator[Path]:
    """A directory with a program `docker` that supports `compose stop`, `start` and `logs` of `kafka-N`."""

    class Compose(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            _, command, service = self.path.split("/")
            node = nodes.nodes[int(service.rpartition("-")[2])]
            answer = b""
            if command == "stop":
                node.stop()
            elif command == "start" and not node.is_running:
                node.start()
            elif command == "logs":
                answer = node.log_file.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    programs = directory / "bin"
    programs.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), Compose) as server:
        Thread(target=server.serve_forever, name="docker", daemon=True).start()
        docker = programs / "docker"
        docker.write_text(DOCKER.format(address=f"http://127.0.0.1:{server.server_port}"))
        docker.chmod(0o755)
        yield programs
        server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
