"""`penstock txn` against a node: open transactions, and a hanging one."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.config import ClientConfig, parse_servers
from penstock.client.connections.connection import Connection
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ProduceRequest, ProduceResponse
from penstock.protocol.records import Record, encode_batch
from penstock.testing import Cluster

PRODUCE_BEFORE_TRANSACTION_VERSION_2 = 11
FAR_PRODUCER_ID = 4_000_000


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    # Without verification a client may write to a transaction without a coordinator, as old clients could.
    config = {
        "transaction.partition.verification.enable": "false",
        "transaction.state.log.num.partitions": "4",
    }
    with Cluster(config) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topics = [NewTopic(name, 2, 1) for name in ("payments", "stuck", "quiet")]
        for future in admin.create_topics(topics).values():
            future.result(60)
        yield cluster


def penstock(node: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", "txn", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PENSTOCK_BOOTSTRAP": node.bootstrap_servers, "PATH": "/usr/bin:/bin"},
        check=False,
    )


def shown(node: Cluster, *words: str) -> Any:
    done = penstock(node, *words, "--json")
    assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
    return json.loads(done.stdout)


def open_transaction(node: Cluster, transactional_id: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": node.bootstrap_servers, "transactional.id": transactional_id}
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("payments", b"1", partition=1)
    producer.flush(10)
    return producer


def write_uncoordinated(node: Cluster, topic: str, producer_id: int) -> int:
    """Open a transaction that is unknown to any coordinator; return its first offset."""
    [address] = parse_servers(node.bootstrap_servers)
    records = encode_batch(
        [Record(0, int(time.time() * 1000), None, b"stuck")],
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=0,
        transactional=True,
    )
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)
    request: Message = ProduceRequest(
        transactional_id="forgotten",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
    )
    connection = Connection.connect(address, ClientConfig(servers=(address,)))
    try:
        connection.send(request, version=PRODUCE_BEFORE_TRANSACTION_VERSION_2)
        answer = connection.receive(ProduceResponse).responses[0].partition_responses[0]
    finally:
        connection.close()
    assert answer.error_code == ErrorCode.NONE
    return answer.base_offset


def test_an_open_transaction_is_listed_described_and_aborted(node: Cluster) -> None:
    producer = open_transaction(node, "app-1")
    [listed] = shown(node, "list", "--pattern", "app-.*", "--state", "Ongoing")
    assert (listed["transactional_id"], listed["state"]) == ("app-1", "Ongoing")
    assert shown(node, "list", "--producer-id", str(listed["producer_id"])) == [listed]
    assert shown(node, "list", "--pattern", "app") == []
    assert shown(node, "list", "--longer-than", "1h", "--state", "Ongoing") == []
    described = shown(node, "describe", "app-1")
    assert described["partitions"] == [["payments", 1]]
    assert described["state"] == "Ongoing"
    assert 0 <= described["open_ms"] < 60_000
    assert "payments" in penstock(node, "describe", "app-1").stdout
    [active] = shown(node, "producers", "payments:1")
    assert (active["producer_id"], active["start_offset"]) == (listed["producer_id"], 0)
    aborted = shown(node, "abort", "app-1")
    assert aborted["state_before"] == "Ongoing"
    assert shown(node, "describe", "app-1")["state"] == "Empty"
    [active] = shown(node, "producers", "payments")
    assert active["start_offset"] is None
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        producer.commit_transaction(10)
    assert fenced.value.args[0].code() in (
        confluent_kafka.KafkaError._FENCED,
        confluent_kafka.KafkaError.INVALID_PRODUCER_EPOCH,
        confluent_kafka.KafkaError.PRODUCER_FENCED,
    )
    assert "had no open transaction" in penstock(node, "abort", "app-1").stdout


@pytest.mark.parametrize("by", ["offset", "producer"])
def test_a_hanging_transaction_is_found_and_aborted(node: Cluster, by: str) -> None:
    producer_id = FAR_PRODUCER_ID + ["offset", "producer"].index(by)
    start_offset = write_uncoordinated(node, "stuck", producer_id)
    time.sleep(0.01)  # it has to be older than a millisecond
    assert shown(node, "list", "--hanging", "--topic", "stuck") == []  # too young to be certain
    [hanging] = shown(node, "list", "--hanging", "--longer-than", "1ms")
    assert (hanging["topic"], hanging["partition"]) == ("stuck", 0)
    assert (hanging["producer_id"], hanging["start_offset"]) == (producer_id, start_offset)
    named = ["--start-offset", str(start_offset)] if by == "offset" else ["--producer-id", str(producer_id)]
    assert shown(node, "abort", "--topic", "stuck:0", *named)["aborted"] is True
    assert shown(node, "list", "--hanging", "--longer-than", "1ms", "--topic", "stuck") == []
    again = penstock(node, "abort", "--topic", "stuck:0", *named)
    assert again.returncode == 1
    assert "no such transaction is open" in again.stderr


def test_a_coordinated_transaction_does_not_hang(node: Cluster) -> None:
    producer = open_transaction(node, "app-2")
    time.sleep(0.01)
    found = shown(node, "list", "--hanging", "--longer-than", "1ms", "--topic", "payments")
    producer.abort_transaction(10)
    assert found == []


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["describe", "nobody"], 1, "TRANSACTIONAL_ID_NOT_FOUND"),
        (["abort", "nobody"], 1, "TRANSACTIONAL_ID_NOT_FOUND"),
        (["abort"], 2, "either a transactional id or --topic"),
        (["abort", "a", "--topic", "stuck:0"], 2, "either a transactional id or --topic"),
        (["abort", "a", "--producer-id", "1"], 2, "belong to --topic"),
        (["abort", "--topic", "stuck:0"], 2, "needs --start-offset or --producer-id"),
        (["abort", "--topic", "stuck", "--producer-id", "1"], 2, "one partition as TOPIC:P"),
        (["abort", "--topic", "quiet:0", "--producer-id", "1"], 1, "no such transaction is open"),
        (["abort", "--topic", "missing:0", "--producer-id", "1"], 1, "does not exist"),
        (["producers", "quiet:7"], 1, "does not exist"),
        (["list", "--hanging", "--state", "Ongoing"], 2, "--topic and --longer-than only"),
        (["list", "--topic", "stuck"], 2, "needs --hanging"),
        (["list", "--longer-than", "soon"], 2, "length of time"),
        (["list", "--state", "Hanging"], 1, "there is no state Hanging"),
        (["list", "--pattern", "("], 1, "INVALID_REGULAR_EXPRESSION"),
    ],
)
def test_what_cannot_be_done_is_said(node: Cluster, words: list[str], code: int, reason: str) -> None:
    done = penstock(node, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert reason in done.stderr


def test_nothing_listens() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "txn", "list", "-b", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "no broker answers" in done.stderr
