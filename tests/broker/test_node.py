"""The life of a node: start, stop, kill, restart, refusals; and configuration that changes while it runs."""

import os
import resource
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_wire import Wire, batch_of
from penstock.processes.memory import bound_memory
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.testing import Cluster
from waiting import wait_until

StartNode = Callable[..., Cluster]
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from penstock.cli.main import main; main()", "start", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def alter_topic(wire: Wire, topic: str, name: str, value: str) -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)
    resource_ = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2, resource_name=topic, configs=[config]
    )
    response = wire.ask(
        IncrementalAlterConfigsRequest(resources=[resource_]), IncrementalAlterConfigsResponse
    )
    assert response.responses[0].error_code == 0, response.responses[0].error_message


def test_data_survives_a_clean_restart(start_node: StartNode) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        topic_id = wire.create_topic("t", partitions=2)
        wire.produce("t", batch_of(b"a", b"b"))
        wire.produce("t", batch_of(b"c"), partition=1)
    node.stop()
    assert (node.data_dir / CLEAN_SHUTDOWN).exists()
    node.start()
    assert not (node.data_dir / CLEAN_SHUTDOWN).exists()
    with Wire(node.bootstrap_servers) as wire:
        assert wire.topic_id("t") == topic_id
        assert wire.values("t") == [b"a", b"b"]
        assert wire.values("t", partition=1) == [b"c"]
        assert wire.produce("t", batch_of(b"d")).base_offset == 2


def test_acknowledged_records_survive_a_kill(start_node: StartNode) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t", internal_segment_bytes="2000")
        for number in range(50):
            assert wire.produce("t", batch_of(b"%d" % number * 20)).base_offset == number
    node.kill()
    assert not (node.data_dir / CLEAN_SHUTDOWN).exists()
    node.start()
    with Wire(node.bootstrap_servers) as wire:
        assert wire.values("t") == [b"%d" % number * 20 for number in range(50)]
        assert wire.produce("t", batch_of(b"after")).base_offset == 50


def test_deleted_topics_stay_deleted(start_node: StartNode) -> None:
    from penstock.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse

    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t")
        wire.produce("t", batch_of(b"a"))
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name="t")], timeout_ms=10_000
        )
        assert wire.ask(request, DeleteTopicsResponse).responses[0].error_code == 0
    node.restart()
    with Wire(node.bootstrap_servers) as wire:
        assert wire.fetch("t").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wire.create_topic("t")
        assert wire.values("t") == []


def test_logs_of_no_known_topic_are_set_aside(start_node: StartNode) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t")
        wire.produce("t", batch_of(b"known"))
    node.stop()
    (node.data_dir / "t-0").rename(node.data_dir / "unknown-0")
    node.start()
    with Wire(node.bootstrap_servers) as wire:
        assert wire.values("t") == []
        wire.create_topic("unknown")
        assert wire.values("unknown") == []
    (stray,) = node.data_dir.glob("unknown-0.*-stray")
    assert b"known" in (stray / f"{0:020}.log").read_bytes()


def test_a_second_node_on_the_same_data_is_refused(start_node: StartNode) -> None:
    node = start_node()
    refused = penstock("--data-dir", str(node.data_dir), "--listen", "127.0.0.1:0")
    assert refused.returncode == 1
    assert "in use by another node" in refused.stderr
    assert "Traceback" not in refused.stderr
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("still-here")


def test_a_taken_port_is_refused(start_node: StartNode, tmp_path: Path) -> None:
    node = start_node()
    refused = penstock("--data-dir", str(tmp_path / "other"), "--listen", node.bootstrap_servers)
    assert refused.returncode == 1
    assert node.bootstrap_servers in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--set", "log.retention.mss=5"], "log.retention.mss"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "nonsense"], "NAME=VALUE"),
        (["--listen", "localhost"], "HOST:PORT"),
        (["--config", "/no/such/file"], "/no/such/file"),
        (["--set", "max.connections.per.ip.overrides=x"], "max.connections.per.ip.overrides"),
    ],
)
def test_errors_of_configuration_are_one_clear_line(tmp_path: Path, arguments: list[str], named: str) -> None:
    refused = penstock("--data-dir", str(tmp_path / "data"), *arguments)
    assert refused.returncode == 2
    assert named in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "# a node as Kafka configures it\n"
        "process.roles=broker,controller\nnode.id=7\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0\nnum.partitions=3\n"
        f"log.dirs={tmp_path / 'data'}\noffsets.topic.replication.factor=1\n"
    )
    command = [sys.executable, "-c", "from penstock.cli.main import main; main()", "start"]
    with subprocess.Popen(
        [*command, "--config", str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        bound_memory(process.pid)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready on 127.0.0.1:")
        with Wire(line.removeprefix("ready on ").strip()) as wire:
            wire.create_topic("t", partitions=-1)
            assert wire.produce("t", batch_of(b"x"), partition=2).error_code == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert "node.id=7" in (tmp_path / "data" / "meta.properties").read_text()


def test_topic_configs_take_effect_without_a_restart(wire: Wire, topic: str) -> None:
    assert wire.produce(topic, batch_of(b"x" * 500)).error_code == 0
    alter_topic(wire, topic, "max.message.bytes", "100")
    assert wire.produce(topic, batch_of(b"x" * 500)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    alter_topic(wire, topic, "max.message.bytes", "1000")
    assert wire.produce(topic, batch_of(b"x" * 500)).error_code == 0


def test_retention_deletes_old_segments(wire: Wire, topic: str) -> None:
    alter_topic(wire, topic, "segment.bytes", "1048576")
    for _ in range(12):
        wire.produce(topic, batch_of(os.urandom(200_000)))
    alter_topic(wire, topic, "retention.bytes", "1000000")
    wait_until(lambda: wire.fetch(topic, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE)
    assert wire.produce(topic, batch_of(b"x")).base_offset == 12


def test_a_full_disk_refuses_what_it_cannot_keep_and_goes_on(start_node: StartNode) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t")
        wire.produce("t", batch_of(b"x" * 100_000))
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (150_000, resource.RLIM_INFINITY))
        answer = wire.produce("t", batch_of(b"y" * 100_000))
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(wire.values("t")) == 1
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert wire.produce("t", batch_of(b"z" * 100_000)).base_offset == 1
    node.kill()
    node.start()
    with Wire(node.bootstrap_servers) as wire:
        assert wire.values("t") == [b"x" * 100_000, b"z" * 100_000]


def test_a_full_disk_is_told_to_admins_and_does_not_stop_a_stop(start_node: StartNode) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t")
        wire.produce("t", batch_of(b"x"))
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        topic = CreateTopicsRequest.CreatableTopic(name="u", num_partitions=1, replication_factor=1)
        created = wire.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        asked = DeleteTopicsRequest.DeleteTopicState(name="t")
        deleted = wire.ask(DeleteTopicsRequest(topics=[asked], timeout_ms=9000), DeleteTopicsResponse)
        for result in (created.topics[0], deleted.responses[0]):
            assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "__cluster_metadata-0" in (result.error_message or "")
        assert wire.values("t") == [b"x"]
    node.stop()
    assert not (node.data_dir / CLEAN_SHUTDOWN).exists()
    assert "Traceback" not in node.log_file.read_text()
    node.start()
    with Wire(node.bootstrap_servers) as wire:
        assert wire.values("t") == [b"x"]
        wire.create_topic("u")


def test_metrics_are_served_where_asked_for(start_node: StartNode) -> None:
    node = start_node(penstock_metrics_port="0")
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("t")
        wire.produce("t", batch_of(b"x"))
    line = next(line for line in node.log_file.read_text().splitlines() if "metrics served" in line)
    with urllib.request.urlopen(f"http://{line.rsplit('address=', 1)[1]}/metrics", timeout=60) as response:
        text = response.read().decode()
    assert 'penstock_requests_total{api="produce"} 1.0' in text
    assert 'penstock_log_end_offset{partition="0",topic="t"} 1.0' in text
