"""Shell completion: bash with the script itself, the other shells by what their scripts ask."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def penstock(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the command and the script for bash."""
    made = tmp_path_factory.mktemp("completion")
    command = made / "penstock"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m penstock "$@"\n')
    command.chmod(0o755)
    (made / "script").write_text(penstock("completion", "bash").stdout)
    return made


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("co", {"connect", "connector", "consume", "config", "completion"}),
        ("config al", {"alter"}),
        ("config alter bro", {"broker", "broker-logger"}),
        ("consume --value", {"--value-format"}),
        ("consume orders --value-format j", {"json", "json-schema"}),
        ("start --log-", {"--log-level", "--log-format"}),
    ],
)
def test_bash_completes(directory: Path, line: str, completed: set[str]) -> None:
    words = ["penstock", *line.split()]
    asked = (
        f"source {directory}/script; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        '_penstock_completion penstock; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", asked],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"},
        check=True,
    )
    assert set(done.stdout.split()) == completed, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_ask_for_completions(shell: str) -> None:
    script = penstock("completion", shell).stdout
    asked = {"_PENSTOCK_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "penstock topic cre"}
    assert all(name in script for name in asked)
    done = penstock(**asked, _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert "create" in done.stdout
    assert "describe" not in done.stdout
    assert done.returncode == 0


def test_only_known_shells_have_a_script() -> None:
    assert penstock("completion", "csh").returncode == 2
