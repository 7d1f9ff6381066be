"""Clients of others at Penstock's REST API: kafka-connect-client in Java, and kc in Python."""

from pathlib import Path

import pytest
from filelock import FileLock
from rest_serving import serving

from kafka_node import run_java
from maven_jars import cache_root, jars_of

BESIDE = Path(__file__).parent
TOUR = """\
4.3.1
source
[a b]
1
{connector.class=FileStreamSource, name=a b, tasks.max=1}
RUNNING
RUNNING
0
[]
true
a b
1
{connector.class=FileStreamSource, name=a b, x=y}
true
true
true
true
2
0
true
Connector a b not found
400 Connector config {name=c, x=y} contains no connector type
"""
SOURCE = {"connector.class": "FileStreamSource"}


@pytest.mark.long
def test_kafka_connect_client() -> None:
    with FileLock(cache_root() / "connect-client.lock"):
        libs = jars_of(BESIDE / "connect_client_pom.xml", "kafka-connect-client-4.0.4")
    with serving() as served:
        assert run_java(libs, str(BESIDE / "ConnectClientTour.java"), served.url) == TOUR


def test_kc() -> None:
    kafka_connect = pytest.importorskip("kafka_connect", reason="kafka-connect-py is not installed")
    with serving() as served:
        client = kafka_connect.KafkaConnect(served.url)
        assert client.get_cluster_info()["version"] == "4.3.1"
        assert client.create_connector({"name": "c", "config": SOURCE})["type"] == "source"
        assert client.list_connectors() == ["c"]
        assert list(client.list_connectors(expand="status", state="RUNNING")) == ["c"]
        assert client.update_connector("c", {**SOURCE, "x": "y"})["config"]["x"] == "y"
        assert client.get_connector("c")["tasks"] == [{"connector": "c", "task": 0}]
        assert client.get_connector_config("c") == {**SOURCE, "name": "c", "x": "y"}
        client.pause_connector("c")
        assert client.get_connector_status("c")["connector"]["state"] == "PAUSED"
        client.resume_connector("c")
        client.restart_connector("c")
        assert client.restart_connector("c", include_tasks=True)["tasks"][0]["state"] == "RESTARTING"
        client.restart_connector_task("c", 0)
        assert client.get_connector_task_status("c", 0)["state"] == "RUNNING"
        assert [task["id"]["task"] for task in client.list_connector_tasks("c")] == [0]
        assert client.list_connector_topics("c") == {"c": {"topics": []}}
        client.reset_connector_topics("c")
        assert len(client.list_connector_plugins()) == 2
        assert client.validate_connector_config("FileStreamSource", SOURCE)["error_count"] == 0
        client.stop_connector("c")
        assert client.get_connector_status("c")["connector"]["state"] == "STOPPED"
        client.delete_connector("c")
        assert client.list_connectors() == []
