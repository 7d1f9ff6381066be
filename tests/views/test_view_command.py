"""`penstock streams serve`, as a user starts it."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from pathlib import Path

from typer.testing import CliRunner
from view_client import ask_key
from views_cluster import Runner, counting_app

from penstock.cli import streams
from penstock.processes.memory import bound_memory
from penstock.testing import Cluster

APP = """
from penstock.streams import App, long, sessions, string, tumbling

name = {name!r}
app = App(name, key=string, value=string)
grouped = app.stream(name + "-in").group_by_key()
grouped.count(store="counts")
grouped.windowed_by(tumbling("10 ms", grace="1 hour")).count(store="windows")
"""


def test_it_serves_what_a_file_defines_until_it_is_told_to_end(
    penstock_cluster: Cluster, tmp_path: Path
) -> None:
    name = f"served-{uuid.uuid4().hex[:12]}"
    servers = penstock_cluster.bootstrap_servers
    runner = Runner(servers, counting_app(name, f"{name}-in"), {f"{name}-in": 2})
    runner.create_topics()
    runner.process(f"{name}-in", [(b"ann", "x", 1)])
    file = tmp_path / "shop.py"
    file.write_text(APP.format(name=name))
    words = ["streams", "serve", str(file), "--port", "0", "--store", "counts", "--bootstrap", servers]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        bound_memory(process.pid)
        assert process.stdout is not None
        told = process.stdout.readline()
        found = re.search(r"is served at (http://127\.0\.0\.1:\d+); stores: counts$", told.strip())
        assert found, told
        assert ask_key(found[1], "counts", "ann").body["value"] == 1
        assert ask_key(found[1], "windows", "ann", start_ms=0).error == "UNKNOWN_STORE"
        process.terminate()
        assert process.wait(30) == 0
        assert "is no longer served" in process.stdout.read()
    finally:
        process.kill()


def test_what_is_wrong_is_told_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(APP.format(name="shop"))
    for words, told in [
        (["--store", "nothing"], "shop has no store 'nothing'; stores that can be queried: counts, windows"),
        (["--host", "0.0.0.0"], "listening on 0.0.0.0: expected 'advertised'"),
    ]:
        done = CliRunner().invoke(streams.app, ["serve", str(file), "--port", "0", *words])
        assert done.exit_code == 2
        assert told in " ".join(done.stderr.split())
