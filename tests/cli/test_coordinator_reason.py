"""Commands for groups while no broker can coordinate them: they wait for a moment, then name the reason."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import typer

from penstock.cli import coordinator
from penstock.cli.coordinator import require_coordinator
from penstock.client.errors import error_from
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from waiting import LIMIT_S, wait_until

REASON = "group 'g': the coordinator is not available: __consumer_offsets cannot be created: "
REMEDY = "Set offsets.topic.replication.factor to at most the number of brokers."


@pytest.fixture(scope="module")
def lone_node() -> Iterator[Cluster]:
    """A node with Kafka's defaults for three brokers."""
    with Cluster({"offsets.topic.replication.factor": "3"}) as cluster:
        yield cluster


def start(node: Cluster, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "penstock", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PENSTOCK_BOOTSTRAP": node.bootstrap_servers},
    )


def test_each_command_ends_with_the_coordinators_reason(lone_node: Cluster) -> None:
    with start(lone_node, "topic", "create", "t") as created:
        assert created.wait(LIMIT_S) == 0
    commands = [
        ("group", "describe", "g", "--json"),
        ("group", "reset-offsets", "g", "--topic", "t", "--to-earliest", "--execute"),
        ("group", "delete", "g"),
        ("consume", "t", "--group", "g"),
    ]
    started = [start(lone_node, *words) for words in commands]
    for words, running in zip(commands, started, strict=True):
        with running:
            printed, error = running.communicate(timeout=LIMIT_S)
        assert (running.returncode, printed) == (1, ""), f"{words}: {running.returncode} {error}"
        assert error.startswith(f"error: {REASON}"), words
        assert error.endswith(f"{REMEDY}\n"), words
        assert error.count("\n") == 1, words


def test_groups_are_listed_without_a_coordinator(lone_node: Cluster) -> None:
    with start(lone_node, "group", "list", "--json") as listed:
        assert listed.communicate(timeout=LIMIT_S) == ("[]\n", "")
    assert listed.returncode == 0


def test_settings_that_only_librdkafka_understands_leave_the_report_to_it(
    lone_node: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "REASON_PATIENCE_S", 0.0)
    settings = tmp_path / "client.properties"
    settings.write_text("")
    with pytest.raises(typer.Exit):
        require_coordinator(lone_node.bootstrap_servers, settings, "g")
    settings.write_text("sasl.mechanism=NTLM\n")
    require_coordinator(lone_node.bootstrap_servers, settings, "g")
    settings.write_text("security.protocol=SSL\nssl.ca.location=/no/such/file\n")
    require_coordinator(lone_node.bootstrap_servers, settings, "g")


def test_a_coordinator_that_is_there_a_moment_later_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "REASON_PATIENCE_S", LIMIT_S)
    with (
        Cluster({"offsets.topic.replication.factor": "2"}, nodes=1, controllers=1) as cluster,
        ThreadPoolExecutor(1) as thread,
    ):
        waiting = thread.submit(require_coordinator, cluster.bootstrap_servers, None, "g")
        log = cluster.log_dir / "node-1.log"
        wait_until(lambda: "cannot create an internal topic" in log.read_text())
        assert not waiting.done()
        cluster.add_broker()
        waiting.result(LIMIT_S)


def test_a_coordinator_without_a_leader_is_reported_without_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
    }
    with Cluster(config, nodes=2, controllers=1) as cluster:

        def leader() -> int | None:
            with start(cluster, "topic", "describe", "__consumer_offsets", "--json") as described:
                [topic] = json.loads(described.communicate(timeout=LIMIT_S)[0])
            found: int | None = topic["partitions"][0]["leader"]
            return found

        require_coordinator(cluster.bootstrap_servers, None, "g")  # creates the topic
        coordinating = leader()
        assert coordinating is not None
        cluster.node(coordinating).kill()
        wait_until(lambda: leader() is None)
        monkeypatch.setattr(coordinator, "PATIENCE_S", 0.0)
        with pytest.raises(typer.Exit):
            require_coordinator(cluster.bootstrap_servers, None, "g")
    assert capsys.readouterr().err == "error: group 'g': the coordinator is not available\n"


def test_a_group_that_the_user_may_not_read_is_refused_at_once() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    allowed = {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"}
    deny = ("acl", "add", "--deny", "--principal", "User:ANONYMOUS", "--operation", "all", "--group", "g")
    with Cluster(allowed) as cluster:
        with start(cluster, *deny) as denied:
            denied.communicate(timeout=LIMIT_S)
        with start(cluster, "consume", "t", "--group", "g") as refused:
            printed, error = refused.communicate(timeout=LIMIT_S)
    assert (refused.returncode, printed) == (1, "")
    assert "topic" not in error
    assert "not authorized for the group (GROUP_AUTHORIZATION_FAILED)" in error


@pytest.mark.parametrize(
    ("sent", "detail"),
    [(None, None), ("", None), (ErrorCode.COORDINATOR_NOT_AVAILABLE.default_message, None), ("why", "why")],
)
def test_a_reason_is_what_the_broker_sent_beyond_the_code(sent: str | None, detail: str | None) -> None:
    error = error_from(ErrorCode.COORDINATOR_NOT_AVAILABLE, "group 'g'", sent)
    assert error.detail == detail
