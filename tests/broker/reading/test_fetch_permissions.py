"""A fetch that waits is answered without records of a topic that its client may not read any more."""

from functools import partial
from pathlib import Path

from acl_wire import SETTINGS, error_codes
from broker_wire import batch_of, fetch_request
from in_process import create, run, running_node
from penstock.broker.api import fetch
from penstock.broker.network.answers import Answer
from penstock.broker.network.context import RequestContext
from penstock.broker.node import Broker
from penstock.metadata.controller.acls import create_acls
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import CreateAclsRequest, FetchRequest, FetchResponse
from penstock.security.acls import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from several_replicas import OTHER, Followed
from waiting import until

ANN, HOST = "User:ann", "127.0.0.1"
LONGER_THAN_ANY_TEST_MS = 600_000
OK, DENIED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def deny(broker: Broker, operation: Operation, kind: ResourceType, name: str) -> None:
    denial = CreateAclsRequest.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=ANN,
        host="*",
        operation=operation,
        permission_type=PermissionType.DENY,
    )
    decide = partial(create_acls, request=CreateAclsRequest(creations=[denial]))
    await broker.controller.submit_and_follow(decide)


def ask(broker: Broker, request: FetchRequest, version: int = 12) -> Answer[FetchResponse]:
    permissions = broker.authorization.permissions(ANN, HOST, ApiKey.FETCH)
    context = RequestContext(version, "ann", HOST, ANN, "PLAINTEXT", permissions=permissions)
    return fetch.handle(broker, request, context)


def test_a_consumer_that_waits_gets_nothing_of_a_topic_it_may_not_read_any_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path, **SETTINGS) as broker:
            await create(broker, "t", "u")
            request = fetch_request("t", {0: 0}, max_wait_ms=LONGER_THAN_ANY_TEST_MS)
            request.topics += fetch_request("u", {0: 0}).topics
            answer = ask(broker, request)
            assert not answer.is_done
            await deny(broker, Operation.READ, ResourceType.TOPIC, "t")
            broker.replicas.append("t", 0, batch_of(b"hidden"))
            await until(lambda: answer.is_done)
            response = answer.result()
            assert error_codes(response) == [OK, DENIED, OK]
            assert not response.responses[0].partitions[0].records

    run(story())


def test_a_consumer_that_waits_by_id_gets_nothing_either(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path, **SETTINGS) as broker:
            await create(broker, "t")
            topic_id = broker.image.topics.by_name["t"].topic_id
            answer = ask(broker, fetch_request(topic_id, {0: 0}, max_wait_ms=LONGER_THAN_ANY_TEST_MS), 18)
            assert not answer.is_done
            await deny(broker, Operation.READ, ResourceType.TOPIC, "t")
            broker.replicas.append("t", 0, batch_of(b"hidden"))
            await until(lambda: answer.is_done)
            assert error_codes(answer.result()) == [OK, DENIED]

    run(story())


def test_a_follower_that_waits_gets_nothing_once_it_is_no_broker_any_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path, **SETTINGS) as broker:
            await create(broker, "t")
            Followed(broker, "t", 0)
            request = fetch_request("t", {0: 0}, max_wait_ms=LONGER_THAN_ANY_TEST_MS)
            request.replica_id = OTHER
            answer = ask(broker, request)
            assert not answer.is_done
            await deny(broker, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            broker.replicas.append("t", 0, batch_of(b"hidden"))
            await until(lambda: answer.is_done)
            response = answer.result()
            assert error_codes(response) == [OK, DENIED]
            assert not response.responses[0].partitions[0].records

    run(story())
