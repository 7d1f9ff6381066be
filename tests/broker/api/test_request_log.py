"""The log lines about requests that change the cluster or are refused."""

from collections.abc import Callable

from broker_wire import Wire
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from penstock.protocol.uuids import uuid_to_text
from penstock.testing import Cluster
from transaction_wire import Transactor
from waiting import wait_until


class Following:
    """The log of a node from now on."""

    def __init__(self, node: Cluster) -> None:
        self._file = node.log_file
        self._start = self._file.stat().st_size

    def has(self, text: str) -> bool:
        return text.encode() in self._file.read_bytes()[self._start :]


def delete(wire: Wire, name: str, version: int) -> int:
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
    return wire.ask(request, DeleteTopicsResponse, version).responses[0].error_code


def test_topics_that_are_created_and_deleted(node: Cluster, wire: Wire) -> None:
    log = Following(node)
    topic_id = uuid_to_text(wire.create_topic("logged"))
    assert log.has(f"topic created topic=logged topic_id={topic_id}\n")
    topic = CreateTopicsRequest.CreatableTopic(name="logged", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    wire.ask(request, CreateTopicsResponse)
    assert log.has("topic not created topic=logged error=TOPIC_ALREADY_EXISTS reason=Topic 'logged' already")
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)
    request.topics[0].name = "checked"
    wire.ask(request, CreateTopicsResponse)
    assert delete(wire, "logged", 5) == 0
    assert log.has(f"topic deleted topic=logged topic_id={topic_id}\n")
    assert delete(wire, "logged", 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert log.has("topic not deleted topic=logged ")
    assert not log.has("checked")


def test_a_request_of_many_topics_logs_the_first(node: Cluster, wire: Wire) -> None:
    log = Following(node)
    names = [f"many-{number}" for number in range(102)]
    wire.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), DeleteTopicsResponse, 5)
    assert log.has("topic not deleted topic=many-99 ")
    assert not log.has("topic=many-100 ")
    assert log.has("more topics in the same request count=2\n")


def test_a_request_with_a_mistake(start_node: Callable[..., Cluster]) -> None:
    node = start_node(delete_topic_enable="false")
    log = Following(node)
    with Wire(node.bootstrap_servers) as wire:
        assert delete(wire, "any", 4) == ErrorCode.TOPIC_DELETION_DISABLED
        assert delete(wire, "any", 1) == ErrorCode.INVALID_REQUEST
    refused = "request refused api=DELETE_TOPICS"
    reason = "error=INVALID_REQUEST reason=Topic deletion is disabled.\n"
    assert log.has(f"{refused} version=1 client_id=wire {reason}")
    assert not log.has(f"{refused} version=4")  # it may be a client's way to find out


def test_transactions_that_their_producers_do_not_end(node: Cluster, wire: Wire, topic: str) -> None:
    log = Following(node)
    first = Transactor(wire, f"replaced-{topic}").begin()
    assert first.write(topic, b"a") is ErrorCode.NONE
    Transactor(wire, f"replaced-{topic}").begin()
    aborting = f"aborting a transaction transactional_id=replaced-{topic} producer_id={first.producer_id}"
    assert log.has(f"{aborting} producer_epoch={first.epoch} reason=its id was initialized again\n")
    slow = Transactor(wire, f"slow-{topic}", timeout_ms=100).begin()
    assert slow.write(topic, b"a") is ErrorCode.NONE
    wait_until(lambda: log.has(f"aborting a transaction transactional_id=slow-{topic} "))
    assert log.has("reason=it timed out after 100 ms\n")
