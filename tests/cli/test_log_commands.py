"""`penstock log`, on the directory of a node that has stopped."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker_wire import Wire, batch_of
from penstock.testing import Cluster


def penstock_log(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "log", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("node") / "data"
    with Cluster(data_dir=directory) as node, Wire(node.bootstrap_servers) as wire:
        wire.create_topic("flights")
        wire.produce("flights", batch_of(b"one", b"two", key=b"k"))
    return directory


def test_verify_and_dump(log_dir: Path) -> None:
    verified = penstock_log("verify", log_dir, "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    by_name = {entry["partition"]: entry for entry in json.loads(verified.stdout)}
    assert by_name["flights-0"]["records"] == 2
    assert "__cluster_metadata-0" in by_name
    dumped = penstock_log("dump", "--records", log_dir / "flights-0")
    assert dumped.returncode == 0, dumped.stderr
    assert "base_offset: 0 last_offset: 1 count: 2" in dumped.stdout
    assert "key: k value: two" in dumped.stdout
    assert "topic_id: " in dumped.stdout


def test_damage_is_told_and_sets_the_exit_code(log_dir: Path) -> None:
    path = log_dir / "flights-0" / f"{0:020d}.log"
    sound = path.read_bytes()
    try:
        path.write_bytes(sound[:70] + bytes([sound[70] ^ 1]) + sound[71:])
        verified = penstock_log("verify", log_dir)
        assert verified.returncode == 1
        assert f"flights-0, offset 0, {path}, byte 0: its checksum fails" in " ".join(verified.stderr.split())
    finally:
        path.write_bytes(sound)


def test_what_is_no_log_directory(tmp_path: Path) -> None:
    assert penstock_log("verify", tmp_path).returncode == 2
    assert penstock_log("verify", tmp_path / "missing").returncode == 2
