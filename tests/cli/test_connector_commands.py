"""`penstock connector` against a worker of Penstock's and one of Apache Kafka's."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from apache_connect_worker import ApacheWorker, connect_libs
from penstock.cli import connector
from penstock.connect.worker import start
from penstock.testing import Cluster
from waiting import wait_until

CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"

pytestmark = pytest.mark.timeout(300)


class Command:
    """A runner of `penstock connector` for one worker."""

    def __init__(self, url: str) -> None:
        self._env = {"PENSTOCK_CONNECT": url}

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(connector.app, words, env=self._env)

    def told(self, *words: str) -> str:
        done = self.run(*words)
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.told(*words, "--json"))

    def states(self) -> dict[str, list[str]]:
        """The state of each connector, and those of its tasks."""
        found = self.json("list")
        return {
            name: [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
            for name, status in found.items()
            if status
        }

    def wait(self, name: str, *states: str) -> None:
        wait_until(lambda: self.states().get(name) == list(states), 60)


@pytest.fixture(
    scope="module",
    params=["penstock", pytest.param("apache", marks=[pytest.mark.kafka, pytest.mark.long])],
)
def command(
    request: pytest.FixtureRequest, penstock_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Command]:
    group = f"commands-{uuid.uuid4().hex[:8]}"
    bootstrap = penstock_cluster.bootstrap_servers
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "offset.flush.interval.ms": "100",
        "listeners": "http://127.0.0.1:0",
    }
    with ExitStack() as stack:
        if request.param == "apache":
            directory = tmp_path_factory.mktemp("worker")
            apache = stack.enter_context(ApacheWorker(connect_libs(), bootstrap, directory, settings))
            yield Command(apache.url)
        else:
            ours = stack.enter_context(start(settings))
            ours.wait_until_ready()
            yield Command(ours.url)


def test_a_connector_from_its_creation_to_its_end(command: Command, tmp_path: Path) -> None:
    source, file = tmp_path / "lines.txt", tmp_path / "files.properties"
    source.write_text("one\ntwo\n")
    file.write_text(f"name=files\nconnector.class={CLASS}\ntopic=lines\nfile={source}\n")
    assert command.told("create", "--file", str(file), "--state", "paused") == "created files\n"
    command.wait("files", "PAUSED")
    assert command.told("resume", "files") == "resuming files\n"
    command.wait("files", "RUNNING", "RUNNING")
    table = command.told("list")
    assert "files" in table
    assert "1 RUNNING" in table
    command.told("alter", "files", "--config", "batch.size=5", "--config", "errors.tolerance=all")
    shown = command.told("show", "files")
    assert "batch.size=5\n" in shown
    assert f"connector.class={CLASS}\n" in shown
    command.told("alter", "files", "--remove", "errors.tolerance")
    assert "errors.tolerance" not in command.json("show", "files")
    command.wait("files", "RUNNING", "RUNNING")
    assert command.told("restart", "files", "--tasks") == "restarting files\n"
    command.wait("files", "RUNNING", "RUNNING")
    assert command.told("restart", "files", "--task", "0") == "restarting files-0\n"
    command.wait("files", "RUNNING", "RUNNING")
    wait_until(lambda: json.loads(command.told("offsets", "files"))["offsets"], 60)
    assert command.told("stop", "files") == "stopping files\n"
    command.wait("files", "STOPPED")
    known = json.loads(command.told("offsets", "files"))
    assert known["offsets"][0]["offset"] == {"position": 8}
    known["offsets"][0]["offset"]["position"] = 4
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps(known))
    assert "altered successfully" in command.told("offsets", "files", "--alter", str(offsets))
    assert json.loads(command.told("offsets", "files")) == known
    assert "reset successfully" in command.told("offsets", "files", "--reset")
    assert command.told("delete", "files") == "deleted files\n"
    wait_until(lambda: command.json("list") == {}, 60)


def test_why_a_task_has_failed(command: Command, tmp_path: Path) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("one\n")
    cast = "org.apache.kafka.connect.transforms.Cast$Value"
    settings = {"connector.class": CLASS, "topic": "lines", "file": str(source), "transforms": "cast"}
    settings |= {"transforms.cast.type": cast, "transforms.cast.spec": "int32"}
    words = [word for key, value in settings.items() for word in ("--config", f"{key}={value}")]
    command.told("create", "broken", *words)
    command.wait("broken", "RUNNING", "FAILED")
    told = command.told("status", "broken")
    assert "task 0 failed:\n" in told
    assert "Value (one) was out of range" in told
    command.told("delete", "broken")


def test_the_faults_of_a_configuration(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    config = {"connector.class": CLASS, "tasks.max": 0, "batch_size": 1}
    file.write_text(json.dumps({"name": "broken", "config": config}))
    done = command.run("validate", "--file", str(file))
    assert done.exit_code == 1
    assert "topic: " in done.output
    assert "warning: nothing defines batch_size; is batch.size meant?" in done.output
    assert "tasks.max: Invalid value 0" in done.output
    refused = command.run("create", "--file", str(file))
    assert refused.exit_code == 1
    assert "contains the following" in refused.output
    assert "(400)" in refused.output


def test_what_does_not_exist(command: Command) -> None:
    for words in (("status", "nothing"), ("delete", "nothing"), ("show", "nothing"), ("restart", "nothing")):
        done = command.run(*words)
        assert done.exit_code == 1
        assert "(404)" in done.output


def test_plugins(command: Command) -> None:
    assert CLASS in command.told("plugins")
    assert "JsonConverter" not in command.told("plugins")
    assert "JsonConverter" in command.told("plugins", "--all")
