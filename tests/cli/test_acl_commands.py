"""`penstock acl` against a node: ACLs are added, listed and removed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import acl
from penstock.security.acls import Operation
from penstock.testing import Cluster

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ALICE = ("--principal", "User:alice")


class Command:
    """A runner of `penstock acl` against one node."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(acl.app, words, env={"PENSTOCK_BOOTSTRAP": self._bootstrap})

    def acls(self, *words: str) -> list[dict[str, Any]]:
        done = self.run(*words, "--json")
        assert done.exit_code == 0, done.output
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def rules(self, *words: str) -> set[tuple[str, str, str]]:
        """The type of resource, the name and the operation of each ACL."""
        return {(found["resource"], found["name"], found["operation"]) for found in self.acls(*words)}


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster({"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}) as cluster:
        yield cluster


@pytest.fixture
def command(node: Cluster) -> Iterator[Command]:
    """A runner against a node that has no ACLs at first."""
    command = Command(node.bootstrap_servers)
    yield command
    for kind in ("topic", "group", "transactional-id"):
        for pattern in ("literal", "prefixed"):
            names = {found["name"] for found in command.acls("list") if found["resource"] == kind}
            for name in names:
                command.run("remove", f"--{kind}", name, "--pattern", pattern)
    command.run("remove", "--cluster")
    assert command.acls("list") == []


def test_an_acl_is_added_listed_and_removed(command: Command) -> None:
    words = (*ALICE, "--operation", "read", "--topic", "orders")
    added = {
        "resource": "topic",
        "name": "orders",
        "pattern": "literal",
        "principal": "User:alice",
        "host": "*",
        "permission": "allow",
        "operation": "read",
    }
    assert command.acls("add", *words) == [added]
    assert command.acls("add", *words) == [added], "it exists already"
    assert command.acls("list") == [added]
    table = command.run("list").stdout
    assert all(text in table for text in ("RESOURCE", "orders", "User:alice"))
    assert command.acls("remove", *words) == [added]
    assert command.acls("list") == []
    again = command.run("remove", *words)
    assert (again.exit_code, again.stderr) == (1, "error: no ACL matches\n")


def test_one_acl_for_each_principal_host_operation_and_resource(command: Command) -> None:
    added = command.acls(
        *("add", *ALICE, "--principal", "User:bob", "--host", "10.0.0.1", "--host", "::1", "--deny"),
        *("-o", "write", "-o", "DESCRIBE", "-t", "orders", "-t", "bills"),
    )
    assert len(added) == 16
    assert {found["principal"] for found in added} == {"User:alice", "User:bob"}
    assert {found["host"] for found in added} == {"10.0.0.1", "0:0:0:0:0:0:0:1"}
    assert {found["permission"] for found in added} == {"deny"}
    assert {found["operation"] for found in added} == {"write", "describe"}
    assert len(command.acls("list", *ALICE, "--host", "::1", "-o", "write", "-t", "orders")) == 1
    assert command.acls("list", "--allow") == []
    assert len(command.acls("list", "--deny")) == 16
    assert len(command.acls("remove", *ALICE)) == 8
    assert {found["principal"] for found in command.acls("list")} == {"User:bob"}


def test_a_producer_and_a_consumer_get_what_they_need(command: Command) -> None:
    producer = ("--producer", "--idempotent", "--topic", "orders", "--transactional-id", "tx")
    needed = {
        ("topic", "orders", "write"),
        ("topic", "orders", "describe"),
        ("topic", "orders", "create"),
        ("transactional-id", "tx", "write"),
        ("transactional-id", "tx", "describe"),
        ("cluster", "kafka-cluster", "idempotent-write"),
    }
    assert command.rules("add", *ALICE, *producer) == needed
    consumer = ("--consumer", "--topic", "orders", "--group", "billing")
    read = {("topic", "orders", "read"), ("topic", "orders", "describe"), ("group", "billing", "read")}
    assert command.rules("add", *ALICE, *consumer) == read
    assert command.rules("list") == needed | read
    assert command.rules("remove", *ALICE, *consumer) == read
    assert command.rules("list") == needed - read


def test_tokens_and_their_owners_are_resources(command: Command) -> None:
    of_owner = (*ALICE, "--user-principal", "User:bob")
    both = {("user", "User:bob", "create-tokens"), ("user", "User:bob", "describe-tokens")}
    assert command.rules("add", *of_owner, "-o", "create-tokens", "-o", "describe-tokens") == both
    of_token = {("delegation-token", "x", "describe")}
    assert command.rules("add", *ALICE, "--delegation-token", "x", "-o", "describe") == of_token
    assert command.rules("list", "--user-principal", "User:bob") == both
    assert command.rules("remove", "--delegation-token", "x") == of_token
    refused = command.run("add", *of_owner, "-o", "read")
    assert "--user-principal has no operation read: expected all, create-tokens" in refused.stderr
    assert command.rules("remove", "--user-principal", "User:bob") == both


def test_a_name_selects_acls_by_its_pattern(command: Command) -> None:
    orders = [("orders", "literal"), ("orders", "prefixed")]
    for name, pattern in (*orders, ("ord", "prefixed"), ("*", "literal")):
        command.acls("add", *ALICE, "-o", "read", "-t", name, "--pattern", pattern)

    def listed(*words: str) -> list[tuple[str, str]]:
        return [(found["name"], found["pattern"]) for found in command.acls("list", "-t", "orders", *words)]

    assert listed() == [("*", "literal"), ("ord", "prefixed"), *orders]
    assert listed("--pattern", "any") == orders
    assert listed("--pattern", "prefixed") == orders[1:]
    assert [found["pattern"] for found in command.acls("remove", "-t", "orders")] == ["literal"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("add", *ALICE, "-o", "read"), "name the resources: give --topic, --group, --transactional-id, "),
        (("add", *ALICE, "-t", "a"), "name the operations: give --operation, --producer or --consumer"),
        (("add", *ALICE, "-t", "a", "-o", "cluster-action"), "--topic has no operation cluster-action"),
        (("add", "--principal", "alice", "-t", "a", "-o", "read"), "--principal alice: expected TYPE:NAME"),
        (("add", *ALICE, "--producer", "-g", "g"), "--producer needs --topic"),
        (("add", *ALICE, "--producer", "-t", "a", "-g", "g"), "--group has no meaning with --producer"),
        (("add", *ALICE, "--consumer", "-t", "a"), "--consumer needs --group"),
        (("add", *ALICE, "--producer", "-t", "a", "-o", "read"), "leave out --operation and --deny"),
        (("add", *ALICE, "--idempotent", "-t", "a"), "--idempotent belongs to --producer"),
        (("remove",), "name the ACLs to remove: give --principal, --topic"),
    ],
)
def test_wrong_usage_is_explained(words: tuple[str, ...], complaint: str) -> None:
    done = CliRunner().invoke(acl.app, words)
    assert done.exit_code == 2
    assert complaint in done.stderr


def test_a_node_without_an_authorizer_refuses(penstock_cluster: Cluster) -> None:
    done = Command(penstock_cluster.bootstrap_servers).run("add", *ALICE, "-o", "read", "-t", "orders")
    assert done.exit_code == 1
    assert "SECURITY_DISABLED" in done.stderr


def test_every_operation_has_a_name() -> None:
    named = {Operation[name.name] for name in acl.OperationName}
    assert named == set(Operation) - {Operation.UNKNOWN, Operation.ANY}
