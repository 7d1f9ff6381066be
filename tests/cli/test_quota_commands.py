"""`penstock quota` against a node: quotas are set, listed and deleted."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import quota
from penstock.testing import Cluster

ANN = {"user": "ann"}


class Command:
    """A runner of `penstock quota` against one node."""

    def __init__(self, bootstrap: str) -> None:
        self._env = {"PENSTOCK_BOOTSTRAP": bootstrap}

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(quota.app, words, env=self._env)

    def quotas(self, *words: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """What a command prints: each entity and its quotas."""
        done = self.run(*words, "--json")
        assert done.exit_code == 0, done.output
        return [(each["entity"], each["quotas"]) for each in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def command(node: Cluster) -> Iterator[Command]:
    """A runner against a node that has no quotas at first."""
    command = Command(node.bootstrap_servers)
    assert command.quotas("list") == []
    yield command
    for entity, _ in command.quotas("list"):
        names = [
            word
            for kind, name in entity.items()
            for word in ((f"--{kind}-default",) if name is None else (f"--{kind}", name))
        ]
        assert command.run("delete", *names).exit_code == 0


def test_quotas_are_set_listed_and_deleted(command: Command) -> None:
    both = {"user": "ann", "client-id": None}
    set_of_ann = ("set", "--user", "ann", "producer_byte_rate=1048576", "request_percentage=12.5")
    quotas_of_ann = {"producer_byte_rate": 1048576, "request_percentage": 12.5}
    assert command.quotas(*set_of_ann) == [(ANN, quotas_of_ann)]
    command.quotas("set", "--user", "ann", "--client-id-default", "consumer_byte_rate=5")
    command.quotas("set", "--ip", "10.0.0.1", "connection_creation_rate=5")
    of_both, of_ip = (both, {"consumer_byte_rate": 5}), ({"ip": "10.0.0.1"}, {"connection_creation_rate": 5})
    assert command.quotas("list") == [of_ip, (ANN, quotas_of_ann), of_both]
    assert command.quotas("list", "--user", "ann") == [(ANN, quotas_of_ann), of_both]
    assert command.quotas("list", "--client-id-default") == [of_both]
    table = command.run("list").stdout.splitlines()
    assert any(line.split() == ["ann", "<default>", "-", "consumer_byte_rate", "5"] for line in table), table
    assert command.quotas("delete", "--user", "ann", "request_percentage") == [
        (ANN, {"request_percentage": 12.5})
    ]
    assert command.quotas("delete", "--user", "ann") == [(ANN, {"producer_byte_rate": 1048576})]
    assert command.quotas("list") == [of_ip, of_both]


def test_a_quota_that_is_not_there_cannot_be_deleted(command: Command) -> None:
    command.quotas("set", "--user", "ann", "producer_byte_rate=1")
    for words, complaint in (
        (("--user", "bob"), "user bob has no quota"),
        (("--user", "ann", "request_percentage"), "user ann has no request_percentage"),
        (("--user-default", "--client-id", "c"), "default user, client-id c has no quota"),
    ):
        done = command.run("delete", *words)
        assert (done.exit_code, done.stderr) == (1, f"error: {complaint}\n")


def test_the_cluster_refuses_what_only_it_can_judge(command: Command) -> None:
    done = command.run("set", "--user", "ann", "producer_byte_rate=0.5")
    assert done.exit_code == 1
    assert "producer_byte_rate cannot be a fractional value." in done.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("set", "producer_byte_rate=1"), "give --user, --client-id or --ip"),
        (("delete",), "give --user, --client-id or --ip"),
        (("set", "--user", "ann"), "Missing argument"),
        (("set", "--user", "ann", "producer_byte_rate"), "expected KEY=VALUE, found 'producer_byte_rate'"),
        (
            ("set", "--user", "ann", "speed=1"),
            "unknown quota 'speed' of user ann: expected producer_byte_rate,",
        ),
        (
            ("delete", "--ip-default", "producer_byte_rate"),
            "of default ip: expected connection_creation_rate",
        ),
        (("set", "--user", "ann", "producer_byte_rate=fast"), "expected a number above 0, found 'fast'"),
        (("set", "--user", "ann", "producer_byte_rate=0"), "expected a number above 0, found '0'"),
        (("list", "--user", "ann", "--user-default"), "give --user or --user-default, not both"),
        (("list", "--user", ""), "--user must not be empty; --user-default stands for the default"),
        (("list", "--ip", "::1", "--user", "ann"), "give it without --user and --client-id"),
    ],
)
def test_a_wrong_usage_changes_nothing(command: Command, words: tuple[str, ...], complaint: str) -> None:
    done = command.run(*words)
    assert done.exit_code == 2
    assert complaint in " ".join(done.stderr.split())
    assert command.quotas("list") == []
