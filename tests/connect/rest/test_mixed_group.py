"""One of Apache's workers and one of Penstock's in one group, with connectors that both have."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from apache_connect_worker import SETTINGS, ApacheWorker, connect_libs
from penstock.connect.worker import start
from penstock.testing import Cluster
from waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(300)]
LIMIT_S = 120.0
CONNECTORS = 4


def ask(url: str, method: str, path: str, content: object = None) -> Any:
    """Return the JSON of an answer, or the status of an error."""
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(
        url.rstrip("/") + path, body, {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            data = answer.read()
            return json.loads(data) if data else None
    except urllib.error.HTTPError as error:
        return error.code


def owners(url: str) -> dict[str, str]:
    """The workers of all connectors and tasks that run."""
    found = ask(url, "GET", "/connectors?expand=status")
    if not isinstance(found, dict):
        return {}
    statuses = [each["status"] for each in found.values()]
    connectors = {each["name"]: each["connector"] for each in statuses}
    tasks = {f"{each['name']}-{task['id']}": task for each in statuses for task in each["tasks"]}
    return {
        name: state["worker_id"]
        for name, state in {**connectors, **tasks}.items()
        if state["state"] == "RUNNING"
    }


@pytest.mark.parametrize("first", ["apache", "penstock"])
def test_workers_of_both_kinds_share_connectors(first: str, tmp_path: Path) -> None:
    libs = connect_libs()
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with Cluster(settings) as cluster:
        properties = {**SETTINGS, "bootstrap.servers": cluster.bootstrap_servers}
        apache = ApacheWorker(libs, cluster.bootstrap_servers, tmp_path)
        if first == "apache":
            with apache, start(properties) as ours:
                share(apache.url, ours.advertised_url, tmp_path)
                apache.__exit__()
                moves(ours.advertised_url, tmp_path)
        else:
            with start(properties) as ours, apache:
                ours.wait_until_ready()
                share(ours.advertised_url, apache.url, tmp_path)
                ours.close()
                moves(apache.url, tmp_path)


def share(leader: str, other: str, directory: Path) -> None:
    """Create connectors through the worker that does not lead, and see that both work."""
    for number in range(CONNECTORS):
        (directory / f"in-{number}").write_text("one\ntwo\n")
        source = {
            "connector.class": "FileStreamSource",
            "file": str(directory / f"in-{number}"),
            "topic": f"lines-{number}",
        }
        sink = {
            "connector.class": "FileStreamSink",
            "file": str(directory / f"out-{number}"),
            "topics": f"lines-{number}",
        }
        for name, config in (("source", source), ("sink", sink)):
            create(other, {"name": f"{name}-{number}", "config": config})
    wait_until(lambda: len(owners(other)) == 4 * CONNECTORS, LIMIT_S, 0.5)
    wait_until(lambda: len(set(owners(other).values())) == 2, LIMIT_S, 0.5)
    assert owners(leader) == owners(other)
    numbers = range(CONNECTORS)
    wait_until(lambda: all(lines(directory, number) == ["one", "two"] for number in numbers), LIMIT_S)
    for url in (leader, other):
        for number in numbers:
            assert ask(url, "POST", f"/connectors/source-{number}/tasks/0/restart") is None
            path = f"/connectors/sink-{number}/restart?includeTasks=true"
            assert isinstance(ask(url, "POST", path), dict)
    wait_until(lambda: len(owners(other)) == 4 * CONNECTORS, LIMIT_S, 0.5)


def create(url: str, connector: dict[str, Any]) -> None:
    """Create a connector, after a rebalance if one is going on."""
    wait_until(lambda: isinstance(ask(url, "POST", "/connectors", connector), dict), LIMIT_S, 0.5)


def moves(left: str, directory: Path) -> None:
    """See that the worker that is left runs everything, from where the other one stopped."""
    wait_until(lambda: len(set(owners(left).values())) == 1, LIMIT_S, 0.5)
    for number in range(CONNECTORS):
        with (directory / f"in-{number}").open("a") as file:
            file.write("three\n")
    wait_until(lambda: all(lines(directory, number)[-1] == "three" for number in range(CONNECTORS)), LIMIT_S)
    for number in range(CONNECTORS):
        assert lines(directory, number) == ["one", "two", "three"]


def lines(directory: Path, number: int) -> list[str]:
    path = directory / f"out-{number}"
    return path.read_text().splitlines() if path.exists() else [""]
