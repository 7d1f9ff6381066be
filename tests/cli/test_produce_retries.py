"""`penstock produce` while brokers acknowledge nothing: it names their reason as it waits and at its end."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import produce, unacknowledged
from penstock.cli.main import build_app
from penstock.testing import Cluster
from waiting import LIMIT_S, wait_until

SHORT = "NOT_ENOUGH_REPLICAS: short-0 has min.insync.replicas=2, in sync: 1 of its replicas "


def run(bootstrap: str, *words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(
        build_app(words[0]), words, input=stdin, env={"PENSTOCK_BOOTSTRAP": bootstrap, "COLUMNS": "400"}
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two brokers; the second has a replica of the topic `short`, and a partition of `lost` alone."""
    config = {
        "auto.create.topics.enable": "false",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
    }
    with Cluster(config, nodes=2, controllers=1) as cluster:
        bootstrap = cluster.node(1).bootstrap_servers
        short = ("topic", "create", "short", "--replication-factor", "2", "--config", "min.insync.replicas=2")
        assert run(bootstrap, *short).exit_code == 0
        lost = ("topic", "create", "lost", "--replication-factor", "1", "--partitions", "2")
        assert run(bootstrap, *lost).exit_code == 0
        yield cluster


@pytest.fixture
def bootstrap(cluster: Cluster) -> str:
    """The address of the first broker, once the second is down and fenced."""
    bootstrap = cluster.node(1).bootstrap_servers

    def leaders_and_isr(topic: str) -> list[tuple[int | None, list[int]]]:
        [described] = json.loads(run(bootstrap, "topic", "describe", topic, "--json").stdout)
        return [(p["leader"], p["isr"]) for p in described["partitions"]]

    if cluster.node(2).is_running:
        cluster.node(2).kill()
    wait_until(lambda: leaders_and_isr("short") == [(1, [1])])
    wait_until(lambda: None in [leader for leader, _ in leaders_and_isr("lost")])
    return bootstrap


def test_a_failure_names_the_brokers_reason(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "DELIVERY_TIMEOUT_MS", 2000)
    [described] = json.loads(run(bootstrap, "topic", "describe", "lost", "--json").stdout)
    [lost] = [str(p["partition"]) for p in described["partitions"] if p["leader"] is None]
    for words, reason in (
        (("short",), f"topic 'short': {SHORT}"),
        (("lost", "--partition", lost), f"topic 'lost': LEADER_NOT_AVAILABLE: lost-{lost} has no leader; "),
        (("none",), "topic 'none': Unknown topic or partition (UNKNOWN_TOPIC_OR_PARTITION)"),
    ):
        done = run(bootstrap, "produce", *words, stdin="a\n")
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        assert f"error: {reason}" in done.stderr


def test_replicas_out_of_sync_do_not_matter_to_a_producer_that_waits_for_the_leader_only(
    bootstrap: str,
) -> None:
    done = run(bootstrap, "produce", "short", "--acks", "1", stdin="a\n")
    assert (done.exit_code, done.stderr) == (0, ""), done.output


def test_the_reason_is_printed_once_while_records_wait(
    cluster: Cluster, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(unacknowledged, "print_note", notes.append)
    monkeypatch.setattr(unacknowledged, "SILENCE_S", 0.1)
    monkeypatch.setattr(produce, "DELIVERY_TIMEOUT_MS", int(LIMIT_S * 1000))
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(run, bootstrap, "produce", "short", stdin="a\nb\n")
        wait_until(lambda: notes)
        assert not waiting.done()
        cluster.node(2).start()
        done = waiting.result(LIMIT_S)
    assert (done.exit_code, done.stdout) == (0, "2 records acknowledged by short\n"), done.output
    [note] = [note for note in notes if "NOT_ENOUGH_REPLICAS" in note]
    assert note.startswith(f"no acknowledgement yet, retrying: {SHORT}")


def test_the_reason_is_printed_while_the_input_stays_open(bootstrap: str) -> None:
    """A sensor that sends a line now and then, or a person who types."""
    command = [sys.executable, "-m", "penstock", "produce", "short", "--bootstrap", bootstrap]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writing,
        ThreadPoolExecutor(1) as thread,
    ):
        assert writing.stdin is not None
        assert writing.stderr is not None
        try:
            writing.stdin.write("typed\n")
            writing.stdin.flush()
            printed = thread.submit(writing.stderr.readline).result(LIMIT_S)
        finally:
            writing.kill()
    assert printed.startswith(f"no acknowledgement yet, retrying: {SHORT}")


def test_a_leader_that_cannot_be_reached_is_named_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "DELIVERY_TIMEOUT_MS", 4000)
    with Cluster({"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as wrong:
        done = run(wrong.bootstrap_servers, "produce", "t", stdin="a\n")
    assert (done.exit_code, done.stdout) == (3, ""), done.output
    assert "the leader of t-0, broker 1, cannot be reached at 127.0.0.1:1: Connection refused" in done.stderr
