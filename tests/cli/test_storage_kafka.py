"""The files of `penstock storage format`, compared with those of Apache Kafka's own tool."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafka_node import run_java
from penstock.metadata.snapshot import Snapshot, decode_snapshot
from penstock.protocol.messages import FeatureLevelRecord, UserScramCredentialRecord
from penstock.storage.directories import meta_properties

pytestmark = [pytest.mark.kafka, pytest.mark.long]

VOTERS = "1@127.0.0.1:9001:JEXY6aqzQY-32P5TStzaFg,2@127.0.0.1:9002:MvDxzVmcRsaTz33bUuRU6A"
FIRST_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
USER = 'SCRAM-SHA-512=[name=bert,iterations=8192,salt="N3E=",saltedpassword="YCE="]'
TOOL = "kafka.tools.StorageTool"
NOT_SERVED = {"group.version", "share.version", "streams.version"}


def properties_file(directory: Path, data: Path, **others: str) -> str:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "2",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9002",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9001",
        "log.dirs": str(data),
    }
    properties |= {name.replace("_", "."): value for name, value in others.items()}
    file = directory / f"{data.name}.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items() if value))
    return str(file)


def penstock(*words: str) -> str:
    command = [sys.executable, "-m", "penstock", "storage", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def levels(snapshot: Snapshot) -> dict[str, int]:
    return {r.name: r.feature_level for r in snapshot.records if isinstance(r, FeatureLevelRecord)}


def users(snapshot: Snapshot) -> list[UserScramCredentialRecord]:
    return [record for record in snapshot.records if isinstance(record, UserScramCredentialRecord)]


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (["--initial-controllers", VOTERS], {}),
        (["--no-initial-controllers"], {}),
        (["--initial-controllers", VOTERS, "--release-version", "3.9"], {}),
        (["-N", "-S", USER, "-S", USER.replace("bert", "ann").replace("512", "256")], {}),
        (["-f", "transaction.version=0", "-f", "eligible.leader.replicas.version=0", "-N"], {}),
        (
            [],
            {
                "controller_quorum_voters": "1@127.0.0.1:9001,2@127.0.0.1:9002",
                "controller_quorum_bootstrap_servers": "",
            },
        ),
    ],
)
def test_both_tools_write_the_same(
    kafka_libs: Path, tmp_path: Path, words: list[str], others: dict[str, str]
) -> None:
    ours, kafkas = tmp_path / "ours", tmp_path / "kafkas"
    penstock("format", "-t", "a-cluster", "-c", properties_file(tmp_path, ours, **others), *words)
    file = properties_file(tmp_path, kafkas, **others)
    run_java(kafka_libs, TOOL, "format", "-t", "a-cluster", "-c", file, *words)
    own, theirs = meta_properties.read(ours), meta_properties.read(kafkas)
    assert own is not None
    assert theirs is not None
    assert own[:2] == theirs[:2] == ("a-cluster", 2)
    assert (ours / FIRST_SNAPSHOT).exists() == (kafkas / FIRST_SNAPSHOT).exists()
    if (ours / FIRST_SNAPSHOT).exists():
        assert own.directory_id == theirs.directory_id
        first, second = (decode_snapshot((d / FIRST_SNAPSHOT).read_bytes()) for d in (ours, kafkas))
        assert first == second
    first, second = (decode_snapshot((d / "bootstrap.checkpoint").read_bytes()) for d in (ours, kafkas))
    assert levels(first) == {k: v for k, v in levels(second).items() if k not in NOT_SERVED}
    assert users(first) == users(second)
    assert len(users(first)) == words.count("-S")


def test_kafkas_tool_reads_ours(kafka_libs: Path, tmp_path: Path) -> None:
    file = properties_file(tmp_path, tmp_path / "ours")
    penstock("format", "-t", "a-cluster", "-c", file, "--standalone")
    assert run_java(kafka_libs, TOOL, "info", "-c", file).split() == penstock("info", "-c", file).split()
