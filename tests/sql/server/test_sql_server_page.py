"""The commands of docs/sql-server.md, run against a server, and their output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sql_service import Service, served
from typer.testing import CliRunner

from penstock.cli import sql
from penstock.testing import Cluster
from waiting import wait_until

PAGE = (Path(__file__).parents[3] / "docs" / "sql-server.md").read_text()
URL = "http://127.0.0.1:8088"
# The page starts these servers; the test starts them itself, on free ports.
SERVERS = ("penstock start", "penstock sql server")


def test_the_page(tmp_path: Path) -> None:
    # A node of its own, because other tests use topics with the same names.
    with (
        Cluster() as cluster,
        served(cluster.bootstrap_servers) as service,
    ):
        _run_page(service, tmp_path)


def _run_page(service: Service, directory: Path) -> None:
    blocks = re.findall(r"^```(sh|text|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    printed = ""
    ran = 0
    for kind, block in blocks:
        if kind == "text":
            missing = [line for line in block.splitlines() if line not in printed]
            assert not missing, printed
        elif kind == "python":
            exec(compile(block.replace(URL, service.url), "docs/sql-server.md", "exec"), {})
            ran += 1
        elif not block.startswith(SERVERS):
            printed = _shell(block.replace(URL, service.url), service.url, directory)
            ran += 1
            if ran == 1:
                wait_until(lambda: len(service.rows("SELECT * FROM totals;")) == 2)
    assert ran == 9


def _shell(script: str, url: str, directory: Path) -> str:
    penstock = f'penstock() {{ {sys.executable} -m penstock "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-e", "-c", penstock + script],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "PENSTOCK_SQL": url, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.usefixtures("restored_logging")
def test_what_is_wrong_with_a_command_is_told_in_a_line() -> None:
    for words, code, told in [
        (["--server", "8088", "-e", "SHOW TOPICS;"], 2, "--server: found 8088, expected http://HOST:PORT"),
        (["--server", "http://127.0.0.1:1", "-e", "x;"], 3, "no SQL server answers at http://127.0.0.1:1"),
        (["-d", "x", "-e", "x;"], 2, "expected NAME=VALUE, found 'x'"),
        (["-f", "no.sql"], 1, "cannot read no.sql: No such file"),
        (["server", "--listen", "8088"], 2, "--listen 8088: expected HOST:PORT"),
        (["server", "--set", "x"], 2, "expected NAME=VALUE"),
        (["server", "-b", "127.0.0.1:1"], 3, "no broker answers"),
    ]:
        done = CliRunner().invoke(sql.app, words)
        assert done.exit_code == code, (words, done.output)
        assert told in " ".join(done.stderr.split()), (words, done.stderr)
