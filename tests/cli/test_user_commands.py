"""`penstock user` against a node: users are created, listed and deleted."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import user
from penstock.client.admin.users import set_password
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as ClientCluster
from penstock.client.errors import ServerError
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster

PASSWORD = "pencil"


class Command:
    """A runner of `penstock user` against one node."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, *words: str, stdin: str | bytes = "") -> Result:
        env = {"PENSTOCK_BOOTSTRAP": self.bootstrap, "SECRET": PASSWORD, "EMPTY": ""}
        done = CliRunner().invoke(user.app, words, input=stdin, env=env)
        assert PASSWORD not in done.output
        return done

    def users(self, *words: str, stdin: str = "") -> list[dict[str, Any]]:
        done = self.run(*words, "--json", stdin=stdin)
        assert done.exit_code == 0, done.output
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(controllers=1) as cluster:
        yield cluster


@pytest.fixture
def command(node: Cluster) -> Iterator[Command]:
    """A runner against a node that has no users at first."""
    command = Command(node.bootstrap_servers)
    yield command
    for name in {found["user"] for found in command.users("list")}:
        command.run("delete", name)
    assert command.users("list") == []


def told(name: str, mechanism: str = "SCRAM-SHA-256", iterations: int = 4096) -> dict[str, Any]:
    return {"user": name, "mechanism": mechanism, "iterations": iterations}


def test_a_user_is_created_listed_and_deleted(command: Command) -> None:
    first, second = told("alice"), told("alice", "SCRAM-SHA-512", 8192)
    assert command.users("create", "alice", "--password-env", "SECRET") == [first]
    more = ("--mechanism", "scram-sha-512", "--iterations", "8192", "--password-env", "SECRET")
    assert command.users("create", "alice", *more) == [second]
    assert command.users("create", "bob", "--password-env", "SECRET") == [told("bob")]
    assert command.users("list") == [first, second, told("bob")]
    table = command.run("list").stdout
    assert all(text in table for text in ("MECHANISM", "alice", "SCRAM-SHA-512", "8192"))
    assert command.users("delete", "alice", "--mechanism", "SCRAM-SHA-512") == [second]
    again = command.run("delete", "alice", "--mechanism", "SCRAM-SHA-512")
    assert (again.exit_code, again.stderr) == (1, "error: user 'alice' has no password for SCRAM-SHA-512\n")
    assert command.users("delete", "alice") == [first]
    gone = command.run("delete", "alice")
    assert (gone.exit_code, gone.stderr) == (1, "error: user 'alice' has no password\n")
    assert command.users("list") == [told("bob")]


def test_a_password_changes_only_on_request(command: Command) -> None:
    words = ("create", "alice", "--password-env", "SECRET")
    command.users(*words)
    refused = command.run(*words, "--iterations", "5000")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "error: user 'alice' has a password for SCRAM-SHA-256 already: --replace changes it\n"
    )
    assert command.users("list") == [told("alice")]
    assert command.users(*words, "--iterations", "5000", "--replace") == [told("alice", iterations=5000)]
    assert command.users("list") == [told("alice", iterations=5000)]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_file_or_standard_input_has_the_password(command: Command, tmp_path: Path, end: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(f"{PASSWORD}{end}".encode())
    assert command.users("create", "alice", "--password-file", str(file)) == [told("alice")]
    assert command.users("create", "bob", "--password-file", "-", stdin=PASSWORD + end) == [told("bob")]


@pytest.mark.parametrize(
    ("words", "stdin", "complaint"),
    [
        ((), "", "give the password by --password-file or --password-env: there is no terminal"),
        (("--password-env", "SECRET", "--password-file", "-"), "", "not both"),
        (("--password-env", "NOWHERE"), "", "there is no such environment variable"),
        (("--password-env", "EMPTY"), "", "the password must not be empty"),
        (("--password-file", "-"), "\n", "the password must not be empty"),
        (("--password-file", "-"), f"{PASSWORD}\nsecond\n", "expected one line"),
        (("--password-file", "-"), b"\xff", "expected text in UTF-8"),
        (("--password-file", "/nowhere"), "", "No such file or directory"),
        (("--password-env", "SECRET", "--iterations", "4095"), "", "4095 is not in the range"),
        (("--password-env", "SECRET", "--iterations", "16385"), "", "16385 is not in the range"),
        (("--password-env", "SECRET", "--mechanism", "PLAIN"), "", "'PLAIN' is not one of"),
    ],
)
def test_a_wrong_usage_creates_nothing(
    command: Command, words: tuple[str, ...], stdin: str | bytes, complaint: str
) -> None:
    done = command.run("create", "alice", *words, stdin=stdin)
    assert done.exit_code == 2
    assert complaint in " ".join(done.stderr.split())
    assert command.users("list") == []


@pytest.mark.parametrize(("repeated", "code"), [(PASSWORD, 0), ("pen", 1)])
def test_a_terminal_is_asked_twice_and_does_not_show_the_password(
    command: Command, repeated: str, code: int
) -> None:
    ours, theirs = pty.openpty()
    words = ["user", "create", "alice", "--bootstrap", command.bootstrap]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = read_until(ours, b"Password for alice: ")
    os.write(ours, f"{PASSWORD}\n".encode())
    shown += read_until(ours, b"Repeat the password: ")
    os.write(ours, f"{repeated}\n".encode())
    if code:
        shown += read_until(ours, b"Password for alice: ")
        os.close(ours)
        assert process.wait(60) != 0
    else:
        shown += read_until(ours, b"4096")
        assert process.wait(60) == 0
        os.close(ours)
    assert PASSWORD.encode() not in shown
    assert command.users("list") == ([] if code else [told("alice")])


def read_until(terminal: int, expected: bytes) -> bytes:
    shown = b""
    while expected not in shown:
        shown += os.read(terminal, 1024)
    return shown


def test_a_controller_knows_the_users(node: Cluster, command: Command) -> None:
    command.users("create", "alice", "--password-env", "SECRET")
    controller = Command(node.bootstrap_controllers)
    assert controller.users("list") == [told("alice")]
    assert controller.users("delete", "alice") == [told("alice")]


def test_an_error_of_the_broker_has_no_password(node: Cluster) -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": node.bootstrap_servers})
    with ClientCluster(config) as cluster, pytest.raises(ServerError) as refused:
        set_password(cluster, "alice", PASSWORD, iterations=1)
    assert refused.value.code is ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert str(refused.value) == (
        "setting the password of alice: UNACCEPTABLE_CREDENTIAL: Too few iterations"
    )
