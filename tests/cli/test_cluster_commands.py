"""`penstock cluster` against three nodes and a fourth that joins them.

The same tests run on Apache Kafka if its jars are available and PENSTOCK_KAFKA_CLUSTERS is set: the expected
results are Kafka's.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from penstock.cli.main import build_app
from several_nodes import SeveralNodes, kafka_nodes, penstock_nodes
from waiting import wait_until

KINDS = ["penstock", pytest.param("kafka", marks=pytest.mark.kafka)]
RACKS = {1: "a", 2: "b", 3: "c", 4: "a"}
# A dead broker is fenced within seconds, and the cluster does not balance leaders by itself.
CONFIG = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "1",
}


@pytest.fixture(scope="module", params=KINDS)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SeveralNodes]:
    directory = tmp_path_factory.mktemp("nodes")
    if request.param == "kafka":
        if not os.environ.get("PENSTOCK_KAFKA_CLUSTERS"):
            pytest.skip("clusters of Apache Kafka take half a minute: PENSTOCK_KAFKA_CLUSTERS=1 runs them")
        libs = request.getfixturevalue("kafka_libs")
        made = kafka_nodes(libs, directory, dynamic_quorum=True, racks=RACKS, config=CONFIG)
    else:
        made = penstock_nodes(directory, dynamic_quorum=True, racks=RACKS, config=CONFIG)
    with made:
        yield made


class Done(NamedTuple):
    """The output and the exit code of a command."""

    returncode: int
    stdout: str
    stderr: str


def penstock(cluster: SeveralNodes, *words: str, command: str = "cluster") -> Done:
    """Run the command in this process, because starting one takes longer than most of these commands."""
    environment = {"PENSTOCK_BOOTSTRAP": cluster.bootstrap_servers}
    result = CliRunner().invoke(build_app(command), [command, *words], env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def shown(cluster: SeveralNodes, *words: str) -> Any:
    done = penstock(cluster, *words, "--json")
    assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
    return json.loads(done.stdout)


def status(cluster: SeveralNodes) -> Any:
    return shown(cluster, "status", "--wait", "30s")


def admin(cluster: SeveralNodes) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def make_topic(cluster: SeveralNodes, name: str, assignment: list[list[int]], megabytes: int = 0) -> None:
    topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment)
    client = admin(cluster)  # the result is lost with it
    client.create_topics([topic])[name].result(60)
    for node in cluster.nodes.values():
        await_topic(node.bootstrap_servers, name)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20})
    for number in range(megabytes * 10):
        producer.produce(name, bytes(100_000), partition=number % len(assignment))
        producer.poll(0)
    assert producer.flush(30) == 0


def await_topic(server: str, name: str) -> None:
    """Wait until this node knows the topic: the creation is answered once the controller has written it."""
    client = AdminClient({"bootstrap.servers": server})
    wait_until(lambda: name in client.list_topics(timeout=60).topics)


def replicas(cluster: SeveralNodes, topic: str) -> list[list[int]]:
    partitions = admin(cluster).list_topics(topic, timeout=60).topics[topic].partitions
    return [sorted(partitions[number].replicas) for number in sorted(partitions)]


def leaders(cluster: SeveralNodes, topic: str) -> list[int]:
    """The leaders according to some node, which may learn of an election a moment after it."""
    partitions = admin(cluster).list_topics(topic, timeout=60).topics[topic].partitions
    return [partitions[number].leader for number in sorted(partitions)]


def throttles(cluster: SeveralNodes, topic: str) -> list[str]:
    """Every throttle that is set, of the topic and of brokers."""
    found = []
    for kind, name in [("topic", topic), *(("broker", str(node)) for node in cluster.nodes)]:
        done = penstock(cluster, "describe", kind, name, "--json", command="config")
        if done.returncode == 0:  # otherwise the broker is down
            found += [
                f"{kind} {name}: {entry['name']}={entry['value']}"
                for entry in json.loads(done.stdout)
                if ".replication.throttled." in entry["name"] and entry["source"].startswith("DYNAMIC")
            ]
    return found


@pytest.mark.timeout(300)
def test_a_cluster_through_its_life(cluster: SeveralNodes, tmp_path: Path) -> None:
    see_three_nodes(cluster)
    move_by_a_plan(cluster, tmp_path)
    turn_a_move_back(cluster, tmp_path)
    raise_replication(cluster)
    add_a_node(cluster)
    lose_and_elect(cluster)
    remove_the_node(cluster)


def see_three_nodes(cluster: SeveralNodes) -> None:
    found = status(cluster)
    assert [(b["broker_id"], b["rack"], b["fenced"]) for b in found["brokers"]] == [
        (1, "a", False),
        (2, "b", False),
        (3, "c", False),
    ]
    members = found["quorum"]["members"]
    assert sorted(m["node_id"] for m in members) == [1, 2, 3]
    assert sorted(m["role"] for m in members) == ["leader", "voter", "voter"]
    assert not found["quorum"]["fixed"]
    table = penstock(cluster, "status").stdout
    assert "0 under-replicated, 0 under min.insync.replicas, 0 offline, 0 moving" in table


def move_by_a_plan(cluster: SeveralNodes, directory: Path) -> None:
    make_topic(cluster, "orders", [[1, 2]] * 6, megabytes=6)
    plan = directory / "plan.json"
    done = penstock(cluster, "reassign", "plan", "orders", "-o", str(plan))
    assert done.returncode == 0, done.stderr
    done = penstock(cluster, "reassign", "run", str(plan), "--throttle", "2MB")
    assert done.returncode == 0, done.stderr
    assert "4 replicas to copy (4.0 MB), " in done.stdout
    assert "partitions, 4.0 MB of 4.0 MB" in done.stderr
    found = replicas(cluster, "orders")
    assert sorted(map(tuple, found)) == [(1, 2), (1, 2), (1, 3), (1, 3), (2, 3), (2, 3)]
    wait_until(lambda: sorted(leaders(cluster, "orders")) == [1, 1, 2, 2, 3, 3])
    assert throttles(cluster, "orders") == []
    again = penstock(cluster, "reassign", "run", str(plan))
    assert (again.returncode, again.stdout) == (0, "nothing to move\n")


def turn_a_move_back(cluster: SeveralNodes, directory: Path) -> None:
    make_topic(cluster, "slow", [[1, 2]], megabytes=4)
    plan = directory / "slow.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "slow", "partition": 0, "replicas": [3, 2]}]}')
    begun = shown(cluster, "reassign", "run", str(plan), "--throttle", "1K", "--no-wait")
    assert begun["partitions"] == [{"topic": "slow", "partition": 0, "replicas": [3, 2]}]
    assert not begun["done"]
    [moving] = shown(cluster, "reassign", "status")["moving"]
    assert (moving["adding"], moving["removing"]) == ([3], [1])
    assert throttles(cluster, "slow") == [
        "topic slow: follower.replication.throttled.replicas=0:3",
        "topic slow: leader.replication.throttled.replicas=0:1,0:2",
        *(
            f"broker {node}: {side}.replication.throttled.rate=1000"
            for node in (1, 2, 3)
            for side in ("follower", "leader")
        ),
    ]
    assert shown(cluster, "status")["moving"] == ["slow-0"]
    assert shown(cluster, "status")["under_replicated"] == []
    assert shown(cluster, "reassign", "cancel") == [{"topic": "slow", "partition": 0}]
    assert replicas(cluster, "slow") == [[1, 2]]
    assert throttles(cluster, "slow") == []
    assert shown(cluster, "reassign", "status") == {"moving": [], "bytes_done": 0, "bytes_total": 0}


def raise_replication(cluster: SeveralNodes) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(30)  # creates an internal topic
    make_topic(cluster, "few", [[1], [2]])
    raised = shown(cluster, "raise-replication", "few", "-r", "2")
    assert raised["done"]
    found = replicas(cluster, "few")
    assert [1 in found[0], 2 in found[1], len(found[0]), len(found[1])] == [True, True, 2, 2]
    assert shown(cluster, "raise-replication")["done"]
    assert all(len(each) == 3 for each in replicas(cluster, "__transaction_state"))
    done = penstock(cluster, "raise-replication", "--factor", "4")
    assert (done.returncode, done.stderr) == (1, "error: 4 replicas need 4 brokers, found 3\n")


def add_a_node(cluster: SeveralNodes) -> None:
    cluster.new_node(4)
    found = status(cluster)
    assert [m["role"] for m in found["quorum"]["members"] if m["node_id"] == 4] == ["observer"]
    done = penstock(cluster, "add-voter", f"4@{cluster.controllers[4]}")
    assert (done.returncode, done.stdout) == (0, "node 4 is a voter\n"), done.stderr
    assert [m["role"] for m in status(cluster)["quorum"]["members"] if m["node_id"] == 4] == ["voter"]
    assert penstock(cluster, "status", "--wait", "30s", "--brokers", "4", "--voters", "4").returncode == 0
    assert penstock(cluster, "status", "--wait", "1s", "--voters", "5").returncode == 1
    assert penstock(cluster, "status", "--voters", "5").returncode == 2
    again = penstock(cluster, "add-voter", f"4@{cluster.controllers[4]}")
    assert again.returncode == 1
    assert "node 4 does not follow the quorum: voters are 1, 2, 3, 4, observers none" in again.stderr
    done = penstock(cluster, "rebalance")
    assert done.returncode == 0, done.stderr
    counts = [broker["replicas"] for broker in status(cluster)["brokers"]]
    # Racks b and c have one broker each, so only the replicas of broker 1 can move to 4.
    assert abs(counts[0] - counts[3]) <= 1
    assert penstock(cluster, "rebalance").stdout == "nothing to move\n"


def lose_and_elect(cluster: SeveralNodes) -> None:
    make_topic(cluster, "ordered", [[3, 2], [3, 1]])
    wait_until(lambda: leaders(cluster, "ordered") == [3, 3])
    cluster.nodes[3].kill()
    wait_until(lambda: [b["fenced"] for b in shown(cluster, "status")["brokers"]][2])
    found = shown(cluster, "status")
    assert {"ordered-0", "ordered-1"} <= set(found["under_replicated"])
    assert found["offline"] == []
    wait_until(lambda: leaders(cluster, "ordered") == [2, 1])
    assert penstock(cluster, "status", "--wait", "1s").returncode == 1
    done = penstock(cluster, "rebalance", "--dry-run")
    assert done.returncode == 1
    assert "broker 3 is down: start it, or move its replicas away with --without 3" in done.stderr
    cluster.nodes[3].start()
    status(cluster)
    elected = shown(cluster, "elect-leaders", "--topic", "ordered")
    assert elected == {"elected": ["ordered-0", "ordered-1"], "failed": {}}
    wait_until(lambda: leaders(cluster, "ordered") == [3, 3])
    shown(cluster, "elect-leaders")
    assert shown(cluster, "elect-leaders") == {"elected": [], "failed": {}}


def remove_the_node(cluster: SeveralNodes) -> None:
    refused = penstock(cluster, "unregister", "4")
    assert (refused.returncode, refused.stderr) == (1, "error: broker 4 is running: stop it first\n")
    done = penstock(cluster, "rebalance", "--without", "4")
    assert done.returncode == 0, done.stderr
    assert penstock(cluster, "remove-voter", "4").stdout == "node 4 is no longer a voter\n"
    gone = penstock(cluster, "remove-voter", "4")
    assert (gone.returncode, "node 4 is no voter" in gone.stderr) == (1, True)
    cluster.nodes.pop(4).stop()
    wait_until(lambda: [b["fenced"] for b in shown(cluster, "status")["brokers"]][3])
    assert penstock(cluster, "unregister", "4").stdout == "broker 4 is unregistered\n"
    found = status(cluster)
    assert [broker["broker_id"] for broker in found["brokers"]] == [1, 2, 3]
    unknown = penstock(cluster, "rebalance", "--without", "9", "--dry-run")
    assert (unknown.returncode, unknown.stderr) == (
        1,
        "error: there is no broker 9: expected one of 1, 2, 3\n",
    )
