"""Errors in the usage of the command line."""

import pytest
from typer.testing import CliRunner

from penstock.cli.main import build_app


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("topc", "No such command 'topc'. Did you mean 'topic'? (see `penstock --help`)"),
        ("topic create", "Missing argument 'TOPIC'. (see `penstock topic create --help`)"),
        ("topic create t -p none", "'none' is not a valid int"),
        ("topic list --intrenal", "No such option: --intrenal"),
        ("consume t --max 2", "No such option: --max (Possible options: --max-messages)"),
        (
            "start --registry 127.0.0.1:18081",
            "(127.0.0.1:18081) (--registry takes no value; --registry-listen does; --registry-config does)",
        ),
        ("produce t --acks 5", "'5' is not one of '0', '1', 'all'. (see `penstock produce --help`)"),
        ("completion", "Missing argument 'SHELL'. Choose from: bash, zsh, fish"),
    ],
)
def test_a_usage_error_is_one_line(line: str, message: str) -> None:
    words = line.split()
    done = CliRunner().invoke(build_app(words[0]), words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_a_group_without_a_command_shows_its_help() -> None:
    done = CliRunner().invoke(build_app("topic"), ["topic"])
    assert "Create topics." in done.stdout
    assert done.stderr == ""
