"""Suggestions for names that do not exist, on a node that creates no topics by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import build_app
from penstock.cli.similar_names import did_you_mean, did_you_mean_topic
from penstock.testing import Cluster

TOPICS = ("orders", "orders-eu", "Payments", "shipments")
NO_TOPIC = "topic 'ordrs': Unknown topic or partition (UNKNOWN_TOPIC_OR_PARTITION)"
NO_TOPIC_OF_CONFIG = "topic 'ordrs': The topic 'ordrs' does not exist (UNKNOWN_TOPIC_OR_PARTITION)"
NO_SUBSCRIBED_TOPIC = (
    "topic 'ordrs': Subscribed topic not available: ordrs: Broker: Unknown topic or partition "
    "(UNKNOWN_TOPIC_OR_PARTITION)"
)
CLOSE = "Did you mean 'orders' or 'orders-eu'?"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster({"auto.create.topics.enable": "false"}) as cluster:
        invoke("topic create", *TOPICS, "-b", cluster.bootstrap_servers)
        yield cluster.bootstrap_servers


def invoke(line: str, *words: str) -> tuple[int, str]:
    """The exit code and the standard error of a command that reads one record, if it reads any."""
    words = (*line.split(), *words)
    done = CliRunner().invoke(build_app(words[0]), words, input="a record\n")
    return done.exit_code, done.stderr


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("topic describe ordrs", f"{NO_TOPIC}. {CLOSE}"),
        ("topic delete ordrs", f"{NO_TOPIC}. {CLOSE}"),
        ("topic alter ordrs -p 3", f"{NO_TOPIC}. {CLOSE}"),
        ("topic alter ordrs -c retention.ms=1", f"{NO_TOPIC_OF_CONFIG}. {CLOSE}"),
        ("config describe topic ordrs", f"{NO_TOPIC}. {CLOSE}"),
        ("config alter topic ordrs -s retention.ms=1", f"{NO_TOPIC_OF_CONFIG}. {CLOSE}"),
        ("consume ordrs -e", f"{NO_TOPIC}. {CLOSE}"),
        ("consume ordrs -e -g g", f"{NO_SUBSCRIBED_TOPIC}. {CLOSE}"),
        ("group reset-offsets g -t ordrs:0 --to-latest", f"topic 'ordrs' does not exist. {CLOSE}"),
        ("cluster reassign plan ordrs", f"there is no topic 'ordrs'. {CLOSE}"),
        ("topic describe payment", "(UNKNOWN_TOPIC_OR_PARTITION). Did you mean 'Payments' or 'shipments'?"),
        ("topic describe elsewhere", "(UNKNOWN_TOPIC_OR_PARTITION)"),
    ],
)
def test_a_topic_that_does_not_exist(bootstrap: str, line: str, complaint: str) -> None:
    code, stderr = invoke(line, "-b", bootstrap)
    assert (code, stderr.endswith(f"{complaint}\n")) == (1, True), stderr


@pytest.mark.parametrize(
    "line", ["cluster elect-leaders -t ordrs", "txn list --hanging -t ordrs", "txn producers ordrs:0"]
)
def test_a_topic_of_a_command_with_the_own_client(bootstrap: str, line: str) -> None:
    complaint = f"error: topic 'ordrs' does not exist in the cluster at {bootstrap}. {CLOSE}\n"
    assert invoke(line, "-b", bootstrap) == (1, complaint)


def test_a_topic_to_write_to(bootstrap: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("topic.metadata.propagation.max.ms=200\n")  # how long librdkafka expects a new topic
    code, stderr = invoke("produce ordrs", "-b", bootstrap, "--command-config", str(config))
    assert (code, stderr) == (1, f"0 records acknowledged, 1 failed\nerror: {NO_TOPIC}. {CLOSE}\n")


def test_a_topic_to_write_to_that_is_expected_too_long(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cli.produce.DELIVERY_TIMEOUT_MS", 500)
    code, stderr = invoke("produce ordrs", "-b", bootstrap)
    assert (code, stderr) == (1, f"0 records acknowledged, 1 failed\nerror: {NO_TOPIC}. {CLOSE}\n")


def test_a_partition_of_a_topic_that_exists(bootstrap: str) -> None:
    code, stderr = invoke("txn producers orders:9", "-b", bootstrap)
    assert (code, stderr) == (1, f"error: partition orders-9 does not exist in the cluster at {bootstrap}\n")


@pytest.mark.parametrize("option", ["-s penstok.broker=INFO", "-d penstok.broker"])
def test_a_logger_that_does_not_exist(bootstrap: str, option: str) -> None:
    code, stderr = invoke(f"config alter broker-logger 1 {option}", "-b", bootstrap)
    assert code == 1
    assert "INVALID_CONFIG: Logger penstok.broker does not exist. Did you mean 'penstock.broker'" in stderr


def test_at_most_three_names_the_closest_first() -> None:
    known = ["orders-1", "orders-2", "orders-3", "orders", "Orders"]
    assert did_you_mean("ORDER", known) == ". Did you mean 'orders', 'Orders' or 'orders-3'?"
    assert did_you_mean("x", known) == did_you_mean("x", []) == ""


def test_internal_topics_only_for_a_name_like_theirs() -> None:
    known = ["__consumer_offsets", "consumer_offers"]
    assert did_you_mean_topic("consumer_offsets", known) == ". Did you mean 'consumer_offers'?"
    close = ". Did you mean '__consumer_offsets' or 'consumer_offers'?"
    assert did_you_mean_topic("__consumer_offset", known) == close
