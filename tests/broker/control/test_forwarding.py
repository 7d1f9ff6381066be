"""Requests forwarded to an active controller that is older than the broker, as in a rolling upgrade."""

import asyncio
import struct
from pathlib import Path

import pytest

from in_process import running_node
from peer_servers import channel_to, server
from penstock.broker.api import api_versions
from penstock.broker.control.channels import ControllerChannels
from penstock.broker.control.forwarding import Forwarding
from penstock.broker.network.answers import CloseConnection
from penstock.broker.network.context import RequestContext
from penstock.broker.peers import ControllerAddress
from penstock.metadata.configs.support import STANDARD_AUTHORIZER
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    ApiVersionsRequest,
    CreateAclsRequest,
    CreateAclsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DefaultPrincipalData,
    DeleteTopicsRequest,
    EnvelopeRequest,
    EnvelopeResponse,
    RequestHeader,
    ResponseHeader,
)
from penstock.security.acls import Operation, PatternType, PermissionType, ResourceType
from penstock.security.permissions import UNRESTRICTED

OLD = {ApiKey.API_VERSIONS: (0, 0), ApiKey.ENVELOPE: (0, 0), ApiKey.CREATE_TOPICS: (2, 5)}
"""The API versions that the controller of these tests serves."""
CONTEXT = RequestContext(6, "test", "127.0.0.1", "User:a", "PLAINTEXT", UNRESTRICTED)


class OldController:
    """Answers CreateTopics in its own versions, and reports an unsupported one."""

    def __init__(self) -> None:
        self.asked: list[tuple[ApiKey, int]] = []
        self.principals: list[DefaultPrincipalData] = []

    async def serve(self, _key: int, correlation_id: int, frame: bytes) -> bytes:
        _, position = RequestHeader.decode(api_keys.request_header_version(ApiKey.ENVELOPE, 0), frame)
        envelope, _ = EnvelopeRequest.decode(0, frame, position)
        version, data = 0, bytes(envelope.request_principal or b"")
        assert data.startswith(version.to_bytes(2, "big"))
        self.principals.append(DefaultPrincipalData.decode(version, data, 2)[0])
        header = ResponseHeader(correlation_id=correlation_id)
        opened = self._open(bytes(envelope.request_data))
        return header.encode(api_keys.response_header_version(ApiKey.ENVELOPE, 0)) + opened

    def _open(self, data: bytes) -> bytes:
        key, version = ApiKey(struct.unpack_from(">h", data)[0]), struct.unpack_from(">h", data, 2)[0]
        self.asked.append((key, version))
        low, high = OLD.get(key, (0, -1))
        if not low <= version <= high:
            return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION).encode(0)
        result = CreateTopicsResponse.CreatableTopicResult(name="t")
        body = CreateTopicsResponse(topics=[result]).encode(version)
        header = ResponseHeader().encode(api_keys.response_header_version(key, version))
        return EnvelopeResponse(response_data=header + body).encode(0)


def test_a_broker_serves_of_what_it_forwards_what_an_old_controller_knows(tmp_path: Path) -> None:
    create = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t")])

    async def scenario() -> None:
        async with server(OldController().serve, OLD) as port, running_node(tmp_path) as broker:
            leader: list[ControllerAddress | None] = [None]
            channel = channel_to(lambda: leader[0])
            broker.forwarding = Forwarding(broker, broker.controller_apis, channel)

            def versions() -> dict[ApiKey, tuple[int, int]]:
                request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
                response = api_versions.handle(broker, request, CONTEXT._replace(api_version=4))
                return {ApiKey(api.api_key): (api.min_version, api.max_version) for api in response.api_keys}

            own = versions()
            assert own == dict(broker.dispatcher.advertised), "its own while it knows no controller"
            leader[0] = ControllerAddress(9, "127.0.0.1", port)
            channel.leader_changed()
            with pytest.raises(CloseConnection, match="CreateTopicsRequest"):
                await broker.forwarding.forward(create, CONTEXT)
            now = versions()
            assert now[ApiKey.CREATE_TOPICS] == (2, 5)
            assert ApiKey.DELETE_TOPICS not in now
            assert now[ApiKey.METADATA] == own[ApiKey.METADATA], "it answers that itself"
            await broker.forwarding.forward(create, CONTEXT._replace(api_version=5))
            leader[0] = None
            channel.leader_changed()
            assert versions() == own
            channel.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_what_a_broker_asks_for_a_client_has_a_version_that_an_old_controller_knows(tmp_path: Path) -> None:
    async def scenario() -> None:
        old = OldController()
        async with server(old.serve, OLD) as port, running_node(tmp_path) as broker:
            channel = channel_to(lambda: ControllerAddress(9, "127.0.0.1", port))
            forwarding = Forwarding(broker, broker.controller_apis, channel)
            create = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t")])
            for _ in range(2):
                response = await forwarding.ask_for(CONTEXT, create, CreateTopicsResponse)
                assert response.topics[0].name == "t"
            newest = api_keys.api_range(ApiKey.CREATE_TOPICS)[1]
            assert [version for _, version in old.asked] == [newest, 5, 5]
            with pytest.raises(KafkaError) as refused:
                await forwarding.ask_for(CONTEXT, DeleteTopicsRequest(timeout_ms=1000), CreateTopicsResponse)
            assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
            channel.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize("token_authenticated", [False, True])
def test_an_envelope_says_who_logged_in_with_a_token(tmp_path: Path, token_authenticated: bool) -> None:
    """Otherwise the controller would give this client more tokens."""

    async def scenario() -> None:
        controller = OldController()
        async with server(controller.serve, OLD) as port, running_node(tmp_path) as broker:
            channel = channel_to(lambda: ControllerAddress(9, "127.0.0.1", port))
            forwarding = Forwarding(broker, broker.controller_apis, channel)
            create = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t")])
            context = CONTEXT._replace(api_version=5, token_authenticated=token_authenticated)
            await forwarding.forward(create, context)
            expected = DefaultPrincipalData(type="User", name="a", token_authenticated=token_authenticated)
            assert controller.principals == [expected]
            channel.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_brokers_own_requests_have_no_envelope_and_outlast_a_former_controller(tmp_path: Path) -> None:
    asked: list[int] = []
    version = OLD[ApiKey.CREATE_TOPICS][1]

    async def serve(key: int, correlation_id: int, _frame: bytes) -> bytes:
        asked.append(key)
        code = ErrorCode.NOT_CONTROLLER if len(asked) == 1 else ErrorCode.NONE
        result = CreateTopicsResponse.CreatableTopicResult(name="t", error_code=code)
        header = ResponseHeader(correlation_id=correlation_id)
        header_version = api_keys.response_header_version(ApiKey.CREATE_TOPICS, version)
        return header.encode(header_version) + CreateTopicsResponse(topics=[result]).encode(version)

    async def scenario() -> None:
        async with server(serve, OLD) as port, running_node(tmp_path) as broker:
            channel = channel_to(lambda: ControllerAddress(9, "127.0.0.1", port))
            forwarding = Forwarding(broker, broker.controller_apis, channel)
            create = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t")])
            response = await forwarding.ask(create, CreateTopicsResponse)
            assert response.topics[0].error_code == ErrorCode.NONE
            assert asked == [ApiKey.CREATE_TOPICS] * 2
            with pytest.raises(KafkaError) as refused:
                await forwarding.ask(DeleteTopicsRequest(timeout_ms=1000), CreateTopicsResponse)
            assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
            channel.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_client_gets_no_permissions_if_the_controller_moves_to_its_node_meanwhile(tmp_path: Path) -> None:
    """The request is in an envelope already, which this node then opens itself."""
    everything = CreateAclsRequest.AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="*",
        resource_pattern_type=PatternType.LITERAL,
        principal="User:a",
        host="*",
        operation=Operation.ALL,
        permission_type=PermissionType.ALLOW,
    )
    grant = CreateAclsRequest(creations=[everything])

    async def scenario() -> None:
        async with running_node(tmp_path, **{"authorizer.class.name": STANDARD_AUTHORIZER}) as broker:
            leader: list[ControllerAddress | None] = [None]
            apis, own = broker.controller_apis, broker.authorization.own
            channels = ControllerChannels(broker, apis, lambda: leader[0], own)
            channel = channels.open("forwarding")
            permissions = broker.authorization.permissions("User:a", "127.0.0.1", ApiKey.CREATE_ACLS)
            client = CONTEXT._replace(api_version=3, permissions=permissions)
            forwarded = asyncio.create_task(Forwarding(broker, apis, channel).forward(grant, client))
            await asyncio.sleep(0)
            leader[0] = ControllerAddress(broker.node_id, "127.0.0.1", 1)
            channel.leader_changed()
            answer = await forwarded
            assert isinstance(answer, bytes)
            response, _ = CreateAclsResponse.decode(3, answer)
            [result] = response.results
            assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert broker.image.acls.existing == set()
            channels.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))
