"""Forward requests that only the controller can answer, in an Envelope with the client's principal (KIP-590).

The client gets the controller's own response. If the active controller is this node, its handler is called
without an Envelope.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.broker.control.authorization import request_name
from penstock.broker.network.answers import CloseConnection
from penstock.broker.network.context import RequestContext
from penstock.broker.peers import ControllerChannel, PeerError, PeerViolation
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import MalformedMessage, Message, UnsupportedVersion
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    DefaultPrincipalData,
    EnvelopeRequest,
    EnvelopeResponse,
    RequestHeader,
    ResponseHeader,
)
from penstock.security.acls import Operation

if TYPE_CHECKING:
    from penstock.broker.control.controller_apis import ControllerApis
    from penstock.broker.control.host import ControlHost

Response = TypeVar("Response", bound=Message)

TIMEOUT_MS: Final = 60_000
"""How long to retry to reach an active controller, as in Kafka."""

FORWARDABLE: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""The requests that an Envelope may contain, as in Kafka."""

_PRINCIPAL_VERSION: Final = 0
_RETRY_MS: Final = 100


class Forwarding:
    """The forwarder of one node. ``channel`` is the connection to the active controller."""

    def __init__(self, host: ControlHost, apis: ControllerApis, channel: ControllerChannel) -> None:
        self._host = host
        self._apis = apis
        self._channel = channel

    def served(self, own: Mapping[ApiKey, tuple[int, int]]) -> Mapping[ApiKey, tuple[int, int]]:
        """The versions of this broker's APIs that clients can use, for ApiVersions.

        The active controller must serve the version of a forwarded API too; it may be older during a rolling
        upgrade. While its versions are unknown, the broker's own versions are reported, as in Kafka.
        """
        versions = self._channel.versions
        if versions is None:
            return own
        told = {}
        for key, (lowest, highest) in own.items():
            shared = versions.shared(key, lowest, highest) if key in FORWARDABLE else (lowest, highest)
            if shared is not None:
                told[key] = shared
        return told

    async def ask(self, request: Message, response_type: type[Response]) -> Response:
        """Return the controller's response to a request of this node itself.

        It has no Envelope, so the controller checks this node's own permissions. Raises KafkaError
        REQUEST_TIMED_OUT, UNSUPPORTED_VERSION.
        """
        try:
            return await self._channel.call(request, response_type, TIMEOUT_MS)
        except PeerViolation as error:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from None
        except PeerError as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from None

    async def ask_for(
        self, client: RequestContext, request: Message, response_type: type[Response]
    ) -> Response:
        """Return the controller's response to a request that this node makes in the name of a client.

        The client did not send it, so its version is the newest that both nodes serve. Raises KafkaError
        REQUEST_TIMED_OUT, UNSUPPORTED_VERSION, and the controller's error if it is this node.
        """
        key = ApiKey(request.ID)
        permissions = client.permissions.on_behalf_of(client.principal, client.client_host, request_name(key))
        version = self._newest(key)
        context = client._replace(api_version=version, permissions=permissions)
        try:
            response = await self.forward(request, context)
        except CloseConnection as refused:
            # There was no connection before, but now the controller has reported its versions.
            version = self._newest(key)
            if version == context.api_version:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(refused)) from None
            response = await self.forward(request, context._replace(api_version=version))
        if isinstance(response, bytes):
            response, _ = api_keys.response_class(request.ID).decode(version, response)
        assert isinstance(response, response_type), type(response).__name__
        return response

    def _newest(self, key: ApiKey) -> int:
        """The newest version that the active controller supports, as far as this node knows."""
        lowest, highest = api_keys.api_range(key)
        versions = self._channel.versions
        shared = None if versions is None else versions.shared(key, lowest, highest)
        return highest if shared is None else shared[1]

    async def forward(self, request: Message, context: RequestContext) -> Message | bytes:
        """Return the controller's response to a client's request, or the response's bytes.

        Raises KafkaError, REQUEST_TIMED_OUT if no active controller answers. Raises CloseConnection if the
        controller does not know the request's version, so that the client requests the served versions again.
        """
        loop = self._host.loop
        deadline_s = loop.time() + TIMEOUT_MS / 1000
        handle = self._apis.handler(ApiKey(request.ID))
        while handle is not None and self._channel.is_here and loop.time() < deadline_s:
            try:
                return await handle(request, context._replace(is_forwarded=True))
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
            await self._channel.wait_for_controller_change(_RETRY_MS)
        envelope = _envelope(request, context)
        try:
            response = await self._channel.call(envelope, EnvelopeResponse, (deadline_s - loop.time()) * 1000)
        except PeerError as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from None
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise CloseConnection(f"the controller does not serve {type(request).__name__} in this version")
        if response.error_code:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller refused an envelope: {response.error_code}"
            )
        return _without_header(ApiKey(request.ID), context.api_version, response.response_data or b"")


def _envelope(request: Message, context: RequestContext) -> EnvelopeRequest:
    key = ApiKey(request.ID)
    header = RequestHeader(
        request_api_key=key, request_api_version=context.api_version, client_id=context.client_id
    )
    data = header.encode(api_keys.request_header_version(key, context.api_version))
    kind, _, name = context.principal.partition(":")
    principal = DefaultPrincipalData(type=kind, name=name, token_authenticated=context.token_authenticated)
    return EnvelopeRequest(
        request_data=data + request.encode(context.api_version),
        request_principal=_PRINCIPAL_VERSION.to_bytes(2, "big") + principal.encode(_PRINCIPAL_VERSION),
        client_host_address=ipaddress.ip_address(context.client_host).packed,
    )


def _without_header(key: ApiKey, version: int, data: bytes | memoryview) -> bytes:
    _, position = ResponseHeader.decode(api_keys.response_header_version(key, version), data)
    return bytes(data[position:])


async def answer_envelope(
    apis: ControllerApis, envelope: EnvelopeRequest, context: RequestContext
) -> EnvelopeResponse:
    """Answer the request in an envelope on the active controller, with a response in an envelope.

    The envelope's own error codes are Kafka's: NOT_CONTROLLER, UNSUPPORTED_VERSION for a request that cannot
    be decoded, INVALID_REQUEST for one that may not be forwarded, PRINCIPAL_DESERIALIZATION_FAILURE, and
    CLUSTER_AUTHORIZATION_FAILED for a sender that is no broker.
    """
    try:
        context.permissions.require(Operation.CLUSTER_ACTION)
        principal, token_authenticated = _principal(envelope.request_principal)
        host = _address(envelope.client_host_address)
        key, header, request = _open(apis, envelope)
        handle = apis.handler(key)
        if key not in FORWARDABLE or handle is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key.name} is not eligible for forwarding")
        forwarded = RequestContext(
            header.request_api_version,
            header.client_id or "",
            host,
            principal,
            context.listener_name,
            is_forwarded=True,
            permissions=context.permissions.on_behalf_of(principal, host, request_name(key)),
            token_authenticated=token_authenticated,
        )
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    version = forwarded.api_version
    try:
        response = await handle(request, forwarded)
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            return EnvelopeResponse(error_code=error.code)
        response = apis.answer_error(request, error, version)
    body = response if isinstance(response, bytes) else response.encode(version)
    told = ResponseHeader(correlation_id=header.correlation_id)
    return EnvelopeResponse(response_data=told.encode(api_keys.response_header_version(key, version)) + body)


def _open(apis: ControllerApis, envelope: EnvelopeRequest) -> tuple[ApiKey, RequestHeader, Message]:
    """Decode the request in an envelope, from a copy of its bytes, as the originals may be overwritten."""
    data = bytes(envelope.request_data)
    try:
        key = ApiKey(int.from_bytes(data[0:2], "big"))
        version = int.from_bytes(data[2:4], "big")
        lowest, highest = apis.versions(key)
        if not lowest <= version <= highest:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        header, position = RequestHeader.decode(api_keys.request_header_version(key, version), data)
        request, _ = api_keys.request_class(key).decode(version, data, position)
    except (MalformedMessage, UnsupportedVersion, ValueError, KeyError) as error:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"the envelope has no valid request: {error}"
        ) from None
    return key, header, request


def _address(packed: bytes | memoryview) -> str:
    try:
        return str(ipaddress.ip_address(bytes(packed)))
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"a client's address of {len(packed)} bytes, expected 4 or 16"
        ) from None


def _principal(data: bytes | memoryview | None) -> tuple[str, bool]:
    """The principal of the client, and whether it has logged in with a delegation token."""
    try:
        raw = bytes(data or b"")
        principal, _ = DefaultPrincipalData.decode(int.from_bytes(raw[:2], "big"), raw, 2)
    except (MalformedMessage, UnsupportedVersion) as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from None
    return f"{principal.type}:{principal.name}", principal.token_authenticated
