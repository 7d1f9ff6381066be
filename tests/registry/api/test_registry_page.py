"""The commands of docs/registry.md, run on a node with a registry, and their output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import registry, schema
from penstock.processes.memory import bound_memory
from small_registry import SmallRegistry

PAGE = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()
URL = "http://127.0.0.1:8081"
# The page starts these servers; the test starts them itself, on free ports.
SERVERS = ("penstock start", "penstock registry start")


def test_the_page(tmp_path: Path) -> None:
    words = ["start", "--registry", "--registry-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"]
    node = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words, "--set", "group.initial.rebalance.delay.ms=0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        bound_memory(node.pid)
        assert node.stdout is not None
        told = ""
        while (found := re.search(r"schema registry ready at (\S+)", told)) is None:
            line = node.stdout.readline()
            assert line, told
            told += line
        _run_page(found[1], tmp_path)
        node.terminate()
        assert node.wait(30) == 0
    finally:
        node.kill()


def _run_page(url: str, directory: Path) -> None:
    blocks = re.findall(r"^```(sh|text|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    printed = ""
    ran = 0
    for kind, block in blocks:
        if kind == "text":
            missing = [line for line in block.splitlines() if line not in printed]
            assert not missing, printed
        elif kind == "python":
            exec(compile(block.replace(URL, url), "docs/registry.md", "exec"), {})
            ran += 1
        elif not block.startswith(SERVERS):
            printed = _shell(block.replace(URL, url), url, directory)
            ran += 1
    assert ran == 6


def _shell(script: str, url: str, directory: Path) -> str:
    penstock = f'penstock() {{ {sys.executable} -m penstock "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-e", "-c", penstock + script],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "PENSTOCK_REGISTRY": url},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.usefixtures("restored_logging")
def test_what_is_wrong_with_a_command_is_told_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text('"long"')
    nobody = ["--registry", "http://127.0.0.1:1"]
    for app, words, code, told in [
        (schema.app, ["list", *nobody], 3, "no schema registry answered GET"),
        (
            schema.app,
            ["list", "--registry", "8081"],
            2,
            "--registry 8081: 'schema.registry.url': expected http://host",
        ),
        (schema.app, ["show"], 2, "give a SUBJECT or --id N"),
        (schema.app, ["register", "s", str(tmp_path / "no.avsc")], 2, "cannot read"),
        (schema.app, ["register", "s", str(tmp_path)], 2, "expected --type with one of AVRO, JSON, PROTOBUF"),
        (schema.app, ["check", "s", str(file), "--reference", "x"], 2, "expected NAME=SUBJECT:VERSION"),
        (registry.app, ["start", "--listen", "8081"], 2, "--listen 8081: expected HOST:PORT"),
        (registry.app, ["start", "--listen", "0.0.0.0:0"], 2, "expected 'host.name'"),
        (registry.app, ["start", "--set", "leader.eligibility=maybe"], 2, "expected true or false"),
        (registry.app, ["start", "--listen", "127.0.0.1:0", "-b", "127.0.0.1:1"], 3, "no broker answers"),
    ]:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == code, (words, done.output)
        assert told in " ".join(done.stderr.split()), (words, done.stderr)


def test_names_are_printed_as_they_are(tmp_path: Path) -> None:
    """Brackets set no colours, words between colons become no emoji, and lines are not wrapped."""
    file = tmp_path / "heart.avsc"
    file.write_text('{"type": "enum", "name": "E", "symbols": ["A"], "doc": ":heart: [red]"}')
    for subject in ("[bold]:x:", "long" * 70):
        with SmallRegistry().running() as small:
            small.add(subject, '"int"')
            for words, told in [
                (["register", subject, str(file)], f"{subject} version 2 has id 2"),
                (["show", subject], ":heart: [red]"),
                (["diff", subject, "1"], '+  "doc": ":heart: [red]"'),
                (["list"], subject[:40]),
            ]:
                done = CliRunner().invoke(schema.app, [*words, "--registry", small.url])
                assert told in done.stdout, (words, done.output)
