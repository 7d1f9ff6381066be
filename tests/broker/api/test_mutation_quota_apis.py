"""The quota of mutations, for requests to a broker whose controller is another process."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from broker_wire import Wire
from penstock.broker.api.mutation_quota import throttled
from penstock.broker.quotas.mutations import MutationQuotas
from penstock.metadata.image.client_quotas import (
    CONTROLLER_MUTATION_RATE,
    ClientQuotasImage,
    client_quota_entity,
    client_quota_record,
)
from penstock.protocol import messages as m
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.testing import Cluster
from quota_wire import set_quota
from waiting import wait_until

RATE: Final = 0.001
"""So low that a token is owed for the rest of the test."""
OWED_MS: Final = 1_000_000
"""The time after which one more token is there."""
TIMEOUT_MS: Final = 20_000
STRICT_VERSIONS: Final = {"create": 6, "delete": 5, "add": 3}
Ask = Callable[[Wire, int], tuple[int, ErrorCode, str | None]]
"""(connection, version) → throttle time, error code and message."""

numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=1) as cluster:
        with Wire(cluster.bootstrap_servers) as admin:
            set_quota(admin, {"client-id": None}, controller_mutation_rate=RATE)
            set_quota(admin, {"client-id": admin.client_id}, controller_mutation_rate=1e9)
        yield cluster


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Wire]:
    """A client whose limit is high."""
    with Wire(cluster.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def connect(cluster: Cluster) -> Callable[[], Wire]:
    """Connects the client of this test, which needs a new connection once one was throttled and is muted."""
    client_id = f"client-{next(numbers)}"
    return lambda: Wire(cluster.bootstrap_servers, client_id=client_id)


def create(wire: Wire, version: int, *, validate_only: bool = False) -> tuple[int, ErrorCode, str | None]:
    topic = m.CreateTopicsRequest.CreatableTopic(
        name=f"mutated-{next(numbers)}", num_partitions=2, replication_factor=1
    )
    request = m.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=validate_only)
    response = wire.ask(request, m.CreateTopicsResponse, version)
    [result] = response.topics
    return outcome(response, result.error_code, result.error_message)


def deletion(admin: Wire) -> Ask:
    name = f"mutated-{next(numbers)}"
    admin.create_topic(name, 2)

    def delete(wire: Wire, version: int) -> tuple[int, ErrorCode, str | None]:
        request = m.DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
        if version >= 6:
            request = m.DeleteTopicsRequest(
                topics=[m.DeleteTopicsRequest.DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS
            )
        response = wire.ask(request, m.DeleteTopicsResponse, version)
        [result] = response.responses
        return outcome(response, result.error_code, result.error_message)

    return delete


def addition(admin: Wire) -> Ask:
    name = f"mutated-{next(numbers)}"
    admin.create_topic(name, 1)

    def add(wire: Wire, version: int) -> tuple[int, ErrorCode, str | None]:
        topic = m.CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=3, assignments=None)
        request = m.CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        response = wire.ask(request, m.CreatePartitionsResponse, version)
        [result] = response.results
        return outcome(response, result.error_code, result.error_message)

    return add


def outcome(response: Message, code: int, message: str | None) -> tuple[int, ErrorCode, str | None]:
    throttle_ms = getattr(response, "throttle_time_ms", None)
    assert isinstance(throttle_ms, int)
    return throttle_ms, ErrorCode.of(code), message


def mutation(kind: str, admin: Wire) -> Ask:
    return {"create": lambda: create, "delete": lambda: deletion(admin), "add": lambda: addition(admin)}[
        kind
    ]()


@pytest.mark.parametrize("kind", STRICT_VERSIONS)
def test_a_strict_quota_refuses_what_the_client_has_no_tokens_for(
    kind: str, admin: Wire, connect: Callable[[], Wire]
) -> None:
    version = STRICT_VERSIONS[kind]
    with connect() as wire:
        assert mutation(kind, admin)(wire, version) == (0, ErrorCode.NONE, None)
        throttle_ms, code, message = mutation(kind, admin)(wire, version)
    assert (code, message) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, None)
    assert OWED_MS < throttle_ms < 2 * OWED_MS


@pytest.mark.parametrize("kind", STRICT_VERSIONS)
def test_a_permissive_quota_admits_older_clients_and_throttles_them(
    kind: str, admin: Wire, connect: Callable[[], Wire]
) -> None:
    version = STRICT_VERSIONS[kind] - 1
    for owed in (2, 4):
        with connect() as wire:
            throttle_ms, code, _ = mutation(kind, admin)(wire, version)
        assert code is ErrorCode.NONE
        assert (owed - 1) * OWED_MS < throttle_ms < owed * OWED_MS


def test_a_validated_request_is_charged_too(connect: Callable[[], Wire]) -> None:
    with connect() as wire:
        assert create(wire, 7, validate_only=True) == (0, ErrorCode.NONE, None)
        assert create(wire, 7, validate_only=True)[1] is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_topic_that_fails_costs_nothing(admin: Wire, connect: Callable[[], Wire]) -> None:
    admin.create_topic("mutated-twice")
    topic = m.CreateTopicsRequest.CreatableTopic(name="mutated-twice", num_partitions=1, replication_factor=1)
    with connect() as wire:
        for _ in range(3):
            response = wire.ask(m.CreateTopicsRequest(topics=[topic]), m.CreateTopicsResponse)
            assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert create(wire, 7) == (0, ErrorCode.NONE, None)


def test_metadata_creates_topics_from_the_quota_of_its_client(connect: Callable[[], Wire]) -> None:
    def created(wire: Wire, name: str) -> bool:
        topic = m.MetadataRequest.MetadataRequestTopic(name=name)
        request = m.MetadataRequest(topics=[topic], allow_auto_topic_creation=True)
        code = wire.ask(request, m.MetadataResponse).topics[0].error_code
        assert code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
        return code == ErrorCode.NONE

    first, second = (f"mutated-{next(numbers)}" for _ in range(2))
    with connect() as wire:
        wait_until(lambda: created(wire, first))
        assert not created(wire, second)
        assert not created(wire, second), "nor later, when the broker has followed its controller"


def test_a_client_of_the_controller_has_the_same_quota(cluster: Cluster, connect: Callable[[], Wire]) -> None:
    with connect() as wire:
        assert create(wire, 7) == (0, ErrorCode.NONE, None)
        client_id = wire.client_id
    with Wire(cluster.bootstrap_controllers, client_id=client_id) as at_controller:
        assert create(at_controller, 7)[1] is ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER])
def test_an_error_has_the_throttle_time_too(code: ErrorCode) -> None:
    """Only an error for the broker has none: it asks the next controller, whose buckets are other ones."""
    image = ClientQuotasImage()
    image.replay(client_quota_record(client_quota_entity({"user": None}), CONTROLLER_MUTATION_RATE, 1.0))
    quota = MutationQuotas(lambda: image, 1, lambda: 0).of("User:ann", "app", is_strict=False)
    quota.charge(3)

    async def fail() -> m.CreateTopicsResponse:
        raise KafkaError(code)

    def answer_error(_error: KafkaError) -> m.CreateTopicsResponse:
        return m.CreateTopicsResponse()

    if code is ErrorCode.NOT_CONTROLLER:
        with pytest.raises(KafkaError):
            asyncio.run(throttled(quota, fail(), answer_error))
    else:
        assert asyncio.run(throttled(quota, fail(), answer_error)).throttle_time_ms == 2000
