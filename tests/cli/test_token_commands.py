"""`penstock token` against a node: tokens are created, listed, renewed and expired."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import token, topic
from penstock.testing import Cluster
from token_wire import PLAIN, SCRAM, SETTINGS

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
CLOCKS_MS = 60_000
"""The time that may pass between two commands."""


class Command:
    """A runner of `penstock token` by one user."""

    def __init__(self, bootstrap: str, properties: Path) -> None:
        self._env = {"PENSTOCK_BOOTSTRAP": bootstrap}
        self._properties = properties

    def run(self, *words: str) -> Result:
        config = ("--command-config", str(self._properties))
        return CliRunner().invoke(token.app, (*words, *config), env=self._env)

    def told(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def ids(self, *words: str) -> list[str]:
        return [found["token_id"] for found in self.told("list", *words)]


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def as_user(node: Cluster, tmp_path: Path) -> Iterator[Callable[[str], Command]]:
    """A runner for a user of a node that has no tokens at first."""

    def as_user(name: str) -> Command:
        properties = tmp_path / f"{name}.properties"
        properties.write_text(login(PLAIN, name, f"of-{name}", "PLAIN"))
        return Command(node.bootstrap_servers, properties)

    yield as_user
    for name in ("ann", "bob"):
        own = as_user(name)
        for found in own.told("list", "--owner", f"User:{name}"):
            if found["owner"] == f"User:{name}":
                own.run("expire", found["token_id"])


def login(module: str, name: str, password: str, mechanism: str, options: str = "") -> str:
    return (
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{name}" password="{password}" {options};\n'
    )


def test_a_token_is_created_and_listed_renewed_and_removed(as_user: Callable[[str], Command]) -> None:
    ann, bob = as_user("ann"), as_user("bob")
    made = ann.told("create", "--renewer", "User:bob", "--max-lifetime", "2d")
    hmac = made.pop("hmac")
    assert len(hmac) == 88
    assert (made["owner"], made["requester"], made["renewers"]) == ("User:ann", "User:ann", ["User:bob"])
    assert made["max_timestamp_ms"] - made["issue_timestamp_ms"] == 2 * DAY_MS
    assert made["expiry_timestamp_ms"] - made["issue_timestamp_ms"] == DAY_MS
    assert ann.told("list") == bob.told("list") == [made]
    assert ann.told("list", "--show-hmac") == [{**made, "hmac": hmac}]
    assert ann.ids("--owner", "User:bob") == [made["token_id"]], "bob may renew it"
    assert ann.ids("--owner", "User:carl") == []
    renewed = bob.told("renew", made["token_id"], "--period", "1h")
    assert renewed["token_id"] == made["token_id"]
    assert abs(renewed["expiry_timestamp_ms"] - time.time() * 1000 - HOUR_MS) < CLOCKS_MS
    later = ann.told("expire", made["token_id"], "--period", "3h")["expiry_timestamp_ms"]
    assert abs(later - time.time() * 1000 - 3 * HOUR_MS) < CLOCKS_MS
    longest = ann.told("expire", made["token_id"], "--period", "99999999999999d")["expiry_timestamp_ms"]
    assert longest == made["max_timestamp_ms"]
    assert bob.run("expire", made["token_id"]).exit_code == 0
    assert ann.told("list") == []


def test_people_read_what_a_token_is_for(as_user: Callable[[str], Command]) -> None:
    ann = as_user("ann")
    created = ann.run("create")
    assert created.exit_code == 0, created.output
    lines = dict(line.split(": ", 1) for line in created.stdout.splitlines())
    assert list(lines) == ["token id", "hmac", "owner", "renewers", "expires", "ends"]
    assert (lines["owner"], lines["renewers"]) == ("User:ann", "none")
    table = ann.run("list").stdout
    assert all(text in table for text in ("REQUESTER", lines["token id"], "User:ann", lines["ends"]))
    assert lines["hmac"] not in table
    assert lines["hmac"] in ann.run("list", "--show-hmac").stdout
    renewed = ann.run("renew", lines["token id"]).stdout
    assert renewed.startswith(f"token {lines['token id']} expires: 20")


def test_the_user_of_a_token_is_served_but_gets_no_tokens(
    as_user: Callable[[str], Command], node: Cluster, tmp_path: Path
) -> None:
    made = as_user("ann").told("create")
    properties = tmp_path / "token.properties"
    of_token = (made["token_id"], made["hmac"], "SCRAM-SHA-512", "tokenauth=true")
    properties.write_text(login(SCRAM, *of_token))
    refused = Command(node.bootstrap_servers, properties).run("list")
    assert refused.exit_code == 1
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.stderr
    words = ("list", "--bootstrap", node.bootstrap_servers, "--command-config", str(properties))
    done = CliRunner().invoke(topic.app, words)
    assert done.exit_code == 2
    assert "tokenauth" in done.stderr


def test_tokens_for_others_need_a_permission(as_user: Callable[[str], Command]) -> None:
    made = as_user("admin").told("create", "--owner", "User:bob")
    assert (made["owner"], made["requester"]) == ("User:bob", "User:admin")
    refused = as_user("ann").run("create", "--owner", "User:bob")
    assert refused.exit_code == 1
    assert "DELEGATION_TOKEN_AUTHORIZATION_FAILED" in refused.stderr
    unknown = as_user("ann").run("renew", made["token_id"])
    assert (unknown.exit_code, unknown.stderr) == (
        1,
        f"error: there is no token '{made['token_id']}' that you may renew or see\n",
    )
    mismatch = as_user("admin").run("renew", made["token_id"])
    assert "DELEGATION_TOKEN_OWNER_MISMATCH" in mismatch.stderr, "it only asked for it"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("create", "--owner", "ann"), "--owner ann: expected TYPE:NAME, such as User:alice"),
        (("create", "--renewer", "User:"), "--renewer User:: expected TYPE:NAME"),
        (("create", "--max-lifetime", "soon"), "expected a length of time such as 90s"),
        (("create", "--max-lifetime", "0s"), "--max-lifetime 0s: expected more than 0 ms"),
        (("renew", "x", "--period", "0ms"), "--period 0ms: expected more than 0 ms"),
        (("list", "--owner", ":x"), "--owner :x: expected TYPE:NAME"),
    ],
)
def test_wrong_usage_is_explained(words: tuple[str, ...], complaint: str) -> None:
    done = CliRunner().invoke(token.app, words)
    assert done.exit_code == 2
    assert complaint in done.stderr
