"""The Cluster that users build their tests on."""

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from penstock.testing import Cluster, ClusterError


def produce(bootstrap: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("events", value)
    assert producer.flush(10) == 0


def read(bootstrap: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    try:
        consumer.assign([TopicPartition("events", 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=60)]
    finally:
        consumer.close()


def test_data_outlives_kill_and_restart_on_the_same_port() -> None:
    with Cluster() as cluster:
        address = cluster.bootstrap_servers
        produce(address, b"before")
        cluster.kill()
        cluster.restart()
        assert cluster.bootstrap_servers == address
        produce(address, b"after the kill")
        cluster.restart()
        assert read(address, 2) == [b"before", b"after the kill"]
        data_dir = cluster.data_dir
        assert data_dir.exists()
    assert not data_dir.exists()


def test_a_data_directory_of_ones_own_is_kept(tmp_path: Path) -> None:
    for number in range(2):
        with Cluster(data_dir=tmp_path / "data") as cluster:
            produce(cluster.bootstrap_servers, b"%d" % number)
            assert len(read(cluster.bootstrap_servers, number + 1)) == number + 1
    assert (tmp_path / "data" / "meta.properties").exists()


def test_controllers_keep_the_ports_that_the_metadata_log_has(tmp_path: Path) -> None:
    with Cluster(nodes=1, controllers=2, data_dir=tmp_path) as cluster:
        ports = cluster.bootstrap_controllers
    cluster = Cluster(nodes=1, controllers=2, data_dir=tmp_path)
    assert cluster.bootstrap_controllers == ports
    cluster.close()


@pytest.mark.long
def test_several_nodes_continue_with_their_data(tmp_path: Path) -> None:
    for number in range(2):
        with Cluster(nodes=3, data_dir=tmp_path) as cluster:
            produce(cluster.bootstrap_servers, b"%d" % number)
            assert len(read(cluster.bootstrap_servers, number + 1)) == number + 1


@pytest.mark.parametrize(
    ("there", "nodes", "message"),
    [
        (["."], 3, "has the data of a cluster of one node, expected that of the nodes 1, 2, 3"),
        (["node-1", "node-2"], 1, "has the data of the nodes 1, 2, expected that of a cluster of one node"),
        (["node-1", "node-3"], 2, "has the data of the nodes 1, 3, expected that of the nodes 1, 2"),
        (["node-1", "node-2"], 3, "has the data of the nodes 1, 2, expected that of the nodes 1, 2, 3"),
    ],
)
def test_the_data_of_a_cluster_with_other_nodes_is_refused(
    tmp_path: Path, there: list[str], nodes: int, message: str
) -> None:
    for name in there:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "meta.properties").touch()
    with pytest.raises(ClusterError, match=re.escape(f"data_dir {tmp_path} {message}")):
        Cluster(nodes=nodes, data_dir=tmp_path)


def test_a_node_that_cannot_start_says_why() -> None:
    with pytest.raises(ClusterError, match=r"log\.segment\.bytes"):
        Cluster({"log.segment.bytes": "many"}).start()


def test_the_address_is_known_only_once_started() -> None:
    with pytest.raises(ClusterError, match="not started"):
        _ = Cluster().bootstrap_servers


def test_the_node_ends_when_its_parent_is_killed() -> None:
    script = "from penstock.testing import Cluster; print(Cluster().start().pid, flush=True); input()"
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    node_pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60
    while is_running(node_pid):
        assert time.monotonic() < deadline, "the node outlived its parent by a minute"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


def test_the_fixture_is_a_running_cluster(penstock_cluster: Cluster) -> None:
    assert is_running(penstock_cluster.pid)


def test_a_node_of_several_is_lost_and_found_by_itself() -> None:
    with Cluster(nodes=2) as cluster:
        first, second = cluster.nodes
        assert cluster.node(2) is second
        assert cluster.bootstrap_servers == f"{first.bootstrap_servers},{second.bootstrap_servers}"
        produce(cluster.bootstrap_servers, b"both")
        second.pause()
        assert second.is_running
        second.resume()
        second.restart()
        assert read(second.bootstrap_servers, 1) == [b"both"]
        with pytest.raises(ClusterError, match="has 2 nodes: choose one"):
            _ = cluster.pid
        with pytest.raises(KeyError, match=r"node 3: expected one of \[1, 2\]"):
            cluster.node(3)


def test_a_paused_cluster_restarts_and_stops() -> None:
    with Cluster() as cluster:
        produce(cluster.bootstrap_servers, b"before")
        cluster.pause()
        assert cluster.is_running
        cluster.restart()
        assert read(cluster.bootstrap_servers, 1) == [b"before"]
        cluster.pause()
        cluster.resume()
        produce(cluster.bootstrap_servers, b"after")
        cluster.pause()
        cluster.stop()
        assert not cluster.is_running
        with pytest.raises(ClusterError, match="the cluster is not running"):
            cluster.pause()


def test_closing_kills_nodes_whose_data_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean stop would wait for the nodes that are gone."""
    with Cluster(nodes=3) as cluster:
        monkeypatch.setattr(cluster, "stop", lambda: pytest.fail("a clean stop"))
        cluster.node(2).kill()
        cluster.node(3).pause()
    assert not cluster.is_running
    assert not cluster.data_dir.exists()


def test_a_node_that_stops_with_all_others_does_not_wait_for_a_quorum() -> None:
    with Cluster(nodes=2) as cluster:
        cluster.node(1).kill()
        cluster.stop()
        log = cluster.node(2).log_tail()
        assert "controlled shutdown abandoned: the node is asked to hurry" in log
        assert "stopped node_id=2" in log


def test_a_failure_to_close_does_not_hide_the_error_of_a_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ClusterError("node 1 hangs")

    def use(cluster: Cluster, error: Exception | None) -> None:
        monkeypatch.setattr(cluster, "stop", fail)
        with cluster:
            if error is not None:
                raise error

    cluster = Cluster(data_dir=tmp_path)
    with pytest.raises(ValueError, match="of the test") as raised:
        use(cluster, ValueError("of the test"))
    assert raised.value.__notes__ == ["the cluster was not closed cleanly: node 1 hangs"]
    assert not cluster.is_running

    cluster = Cluster(data_dir=tmp_path)
    with pytest.raises(ClusterError, match="node 1 hangs"):
        use(cluster, None)
    assert not cluster.is_running


def test_a_closed_cluster_cannot_start_again() -> None:
    with Cluster(nodes=2) as cluster:
        pass
    for start in (cluster.start, cluster.restart, cluster.add_broker, cluster.__enter__):
        with pytest.raises(ClusterError, match="the cluster is closed"):
            start()
    with pytest.raises(ClusterError, match="node 2 cannot start: its cluster is closed"):
        cluster.node(2).start()


def test_what_no_cluster_can_be() -> None:
    with pytest.raises(ValueError, match="at least one node, found nodes=0"):
        Cluster(nodes=0)
    with pytest.raises(ValueError, match="port is for a cluster of one node"):
        Cluster(nodes=2, port=9092)
    with Cluster() as one, pytest.raises(ClusterError, match="one node cannot grow"):
        one.add_broker()


SCHEMA = Schema('{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}', "AVRO")


def test_a_registry_in_the_node_keeps_its_address_and_schemas() -> None:
    with Cluster(registry=True) as cluster:
        url = cluster.registry_url
        number = SchemaRegistryClient({"url": url}).register_schema("orders-value", SCHEMA)
        cluster.kill()
        cluster.restart()
        assert cluster.registry_url == url
        assert SchemaRegistryClient({"url": url}).get_schema(number).schema_str == SCHEMA.schema_str


def test_a_registry_beside_several_nodes_outlives_one() -> None:
    with Cluster(nodes=1, controllers=1, registry=True) as cluster:
        url = cluster.registry_url
        number = SchemaRegistryClient({"url": url}).register_schema("orders-value", SCHEMA)
        cluster.node(1).kill()
        assert SchemaRegistryClient({"url": url}).get_schema(number).schema_str == SCHEMA.schema_str


def test_a_registry_that_was_not_asked_for() -> None:
    with pytest.raises(ClusterError, match="no schema registry: create it with"):
        _ = Cluster().registry_url


def test_the_event_loop_runs_on_while_a_cluster_starts_and_stops() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    async def use() -> tuple[int, int]:
        turning = asyncio.create_task(turn())
        async with Cluster() as cluster:
            assert is_running(cluster.pid)
            started = turns
        turning.cancel()
        return started, turns - started

    started, stopped = asyncio.run(use())
    assert started > 0
    assert stopped > 0


def test_a_start_that_is_cancelled_leaves_no_node() -> None:
    cluster = Cluster()

    async def use() -> None:
        async with cluster:
            pytest.fail("it was cancelled")

    async def cancel() -> None:
        using = asyncio.create_task(use())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using

    asyncio.run(cancel())
    assert not cluster.nodes[0].is_running
    assert not cluster.data_dir.exists()
