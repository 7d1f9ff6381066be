"""Delegation tokens on nodes: who gets them, who comes in with them, and attacks on both."""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_wire import Wire
from certificates import Authority
from in_process import run, running_node
from penstock.broker.node import Broker
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DefaultPrincipalData,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    RequestHeader,
    ResponseHeader,
)
from penstock.security.acls import Operation, PatternType, PermissionType, ResourceType
from penstock.security.delegation_tokens import TokenSecret, password_of
from penstock.testing import Cluster
from token_wire import SECRET, SETTINGS, TokenWire
from waiting import wait_until

ANN, BOB, CARL = "User:ann", "User:bob", "User:carl"
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
UNAUTHORIZED = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED

Connect = Callable[[], TokenWire]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A broker that is not the controller, so that it forwards requests in envelopes."""
    with Cluster(SETTINGS, controllers=1) as cluster:
        yield cluster


@pytest.fixture
def connect(cluster: Cluster) -> Iterator[Connect]:
    """Opens connections to the broker."""
    opened: list[TokenWire] = []

    def connect() -> TokenWire:
        opened.append(TokenWire(cluster.bootstrap_servers, 20))
        return opened[-1]

    yield connect
    for wire in opened:
        wire.socket.close()


def new_token(
    connect: Connect, user: str, owner: str | None = None, lifetime_ms: int = -1
) -> CreateDelegationTokenResponse:
    """Create a token, and wait until the broker knows it."""
    wire = connect().as_user(user)
    token = wire.create(owner=owner, lifetime_ms=lifetime_ms)
    assert token.error_code == 0
    wait_until(lambda: token.token_id in wire.seen())
    return token


def allow(connect: Connect, principal: str, operation: Operation, kind: ResourceType, name: str) -> None:
    creation = CreateAclsRequest.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=PermissionType.ALLOW,
    )
    [result] = (
        connect().as_user("admin").ask(CreateAclsRequest(creations=[creation]), CreateAclsResponse).results
    )
    assert result.error_code == 0, result.error_message


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_logs_in_with_a_token_as_its_owner(connect: Connect, mechanism: str) -> None:
    token = new_token(connect, "ann", lifetime_ms=60_000)
    wire = connect()
    answer = wire.by_token(token.token_id, token.hmac, mechanism)
    assert answer.error_code == 0, answer.error_message
    assert 0 < answer.session_lifetime_ms <= 60_000, "the session ends with the token"
    assert wire.is_served()


def test_who_came_with_a_token_gets_no_tokens_though_the_request_is_forwarded(connect: Connect) -> None:
    token = new_token(connect, "ann")
    wire = connect()
    assert wire.by_token(token.token_id, token.hmac).error_code == 0
    refused = wire.create()
    assert (refused.error_code, refused.hmac) == (NOT_ALLOWED, b"")
    assert wire.renew(token.hmac) is wire.expire(token.hmac) is NOT_ALLOWED
    described = wire.describe(all_owners=True)
    assert (described.error_code, described.tokens) == (NOT_ALLOWED, [])
    assert token.token_id in connect().as_user("ann").seen()


def test_a_token_of_another_is_of_no_use(connect: Connect) -> None:
    """Neither its HMAC for renewals nor another token's HMAC for a login."""
    mine, other = new_token(connect, "bob"), new_token(connect, "ann")
    bob = connect().as_user("bob")
    assert bob.renew(other.hmac) is bob.expire(other.hmac) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    forged = TokenSecret(f"not {SECRET}").hmac(mine.token_id)
    assert bob.renew(forged) is bob.expire(forged) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    for token_id, token_hmac in (
        (other.token_id, mine.hmac),
        (other.token_id, forged),
        (other.token_id, b""),
        ("ann", other.hmac),
        ("no such token", mine.hmac),
    ):
        refused = connect().by_token(token_id, token_hmac)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert refused.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            "SCRAM-SHA-256"
        )


def test_a_token_that_was_removed_lets_nobody_in(connect: Connect) -> None:
    ann, token = connect().as_user("ann"), new_token(connect, "ann")
    inside = connect()
    assert inside.by_token(token.token_id, token.hmac).error_code == 0
    assert ann.expire(token.hmac) is ErrorCode.NONE
    wait_until(lambda: token.token_id not in ann.seen())
    assert connect().by_token(token.token_id, token.hmac).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert inside.is_served(), "as in Kafka, a session lasts as long as it was promised"
    assert inside.by_token(token.token_id, token.hmac).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not inside.is_served(), "it could not authenticate again"


def test_a_session_ends_when_its_token_expires(connect: Connect) -> None:
    ann, token = connect().as_user("ann"), new_token(connect, "ann", lifetime_ms=1500)
    inside = connect()
    assert 0 < inside.by_token(token.token_id, token.hmac).session_lifetime_ms <= 1500
    wait_until(lambda: time.time() * 1000 > token.expiry_timestamp_ms)
    assert ann.renew(token.hmac) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    wait_until(lambda: not inside.is_served())
    late = connect()
    assert late.by_token(token.token_id, token.hmac).session_lifetime_ms == 0
    assert not late.is_served(), "its session had ended before it began"
    assert ann.expire(token.hmac) is ErrorCode.NONE


def test_tokens_for_others_and_of_others_need_permissions(connect: Connect) -> None:
    ann, carl = connect().as_user("ann"), connect().as_user("carl")
    refused = carl.create(owner=ANN)
    assert (refused.error_code, refused.principal_name) == (UNAUTHORIZED, "ann")
    assert refused.token_requester_principal_name == "carl"
    allow(connect, CARL, Operation.CREATE_TOKENS, ResourceType.USER, ANN)
    created = new_token(connect, "carl", owner=ANN)
    assert created.principal_name == "ann"
    assert carl.create(owner=BOB).error_code == UNAUTHORIZED
    wire = connect()
    assert wire.by_token(created.token_id, created.hmac).error_code == 0
    own = new_token(connect, "ann")
    assert created.token_id in ann.seen()
    assert created.token_id in carl.seen(), "it asked for it"
    assert own.token_id not in carl.seen()
    allow(connect, CARL, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, own.token_id)
    wait_until(lambda: own.token_id in carl.seen())
    another = new_token(connect, "ann")
    assert another.token_id not in carl.seen()
    allow(connect, CARL, Operation.DESCRIBE_TOKENS, ResourceType.USER, ANN)
    wait_until(lambda: another.token_id in carl.seen())
    assert carl.describe().tokens == []
    assert {token.principal_name for token in carl.describe(ANN).tokens} == {"ann"}


def test_an_owner_needs_a_type(connect: Connect) -> None:
    """Apache Kafka answers UNKNOWN_SERVER_ERROR."""
    request = CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name="ann")
    refused = connect().as_user("admin").ask(request, CreateDelegationTokenResponse)
    assert (refused.error_code, refused.principal_name) == (ErrorCode.INVALID_REQUEST, "ANONYMOUS")


def test_a_token_of_a_principal_that_is_no_user_is_no_way_to_become_one(connect: Connect) -> None:
    """ACLs protect the users' tokens, and Group:admin is not User:admin."""
    allow(connect, BOB, Operation.CREATE_TOKENS, ResourceType.USER, "Group:admin")
    token = new_token(connect, "bob", owner="Group:admin")
    assert token.principal_type == "Group"
    assert connect().by_token(token.token_id, token.hmac).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


# At the controller


def envelope(request: Message, principal: DefaultPrincipalData) -> EnvelopeRequest:
    header = RequestHeader(request_api_key=38, request_api_version=3, client_id="x").encode(2)
    return EnvelopeRequest(
        request_data=header + request.encode(3),
        request_principal=bytes(2) + principal.encode(0),
        client_host_address=bytes([127, 0, 0, 1]),
    )


def opened(response: EnvelopeResponse) -> CreateDelegationTokenResponse:
    assert response.error_code == 0
    data = bytes(response.response_data or b"")
    _, position = ResponseHeader.decode(1, data)
    return CreateDelegationTokenResponse.decode(3, data, position)[0]


def test_the_controller_knows_from_the_envelope_who_came_with_a_token(cluster: Cluster) -> None:
    """A broker that does not check, such as an older one, does not help."""
    with Wire(cluster.bootstrap_controllers) as node:
        for token_authenticated, error in ((True, NOT_ALLOWED), (False, ErrorCode.NONE)):
            principal = DefaultPrincipalData(type="User", name="ann", token_authenticated=token_authenticated)
            response = node.ask(envelope(CreateDelegationTokenRequest(), principal), EnvelopeResponse)
            assert opened(response).error_code == error


def test_the_controller_asks_who_asks_for_the_token_of_another(cluster: Cluster) -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="admin")
    with Wire(cluster.bootstrap_controllers) as node:
        principal = DefaultPrincipalData(type="User", name="ann")
        assert opened(node.ask(envelope(request, principal), EnvelopeResponse)).error_code == UNAUTHORIZED
        refused = node.ask(request, CreateDelegationTokenResponse)
        assert refused.error_code == NOT_ALLOWED, "this listener does not authenticate"


def test_a_client_cannot_forge_an_envelope(tmp_path: Path) -> None:
    """Ann is a client of the controller's listener, and no node."""
    settings = {
        **SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": SETTINGS[
            "listener.name.plaintext.plain.sasl.jaas.config"
        ],
        "super.users": "User:node;User:admin",
    }

    def story(bootstrap: str) -> None:
        principal = DefaultPrincipalData(type="User", name="admin", token_authenticated=False)
        with TokenWire(bootstrap) as wire:
            token = wire.as_user("ann").create()
            assert token.error_code == 0, "controllers answer clients, too"
            answer = wire.ask(envelope(CreateDelegationTokenRequest(), principal), EnvelopeResponse)
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        with TokenWire(bootstrap) as wire:
            assert wire.by_token(token.token_id, token.hmac).error_code == 0
            assert wire.create().error_code == NOT_ALLOWED
            answer = wire.ask(envelope(CreateDelegationTokenRequest(), principal), EnvelopeResponse)
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    async def on_loop() -> None:
        async with running_node(tmp_path, **settings) as broker:
            await asyncio.to_thread(story, address(broker, "CONTROLLER"))

    run(on_loop())


# Listeners, settings and logs


def address(broker: Broker, listener: str) -> str:
    host, port = broker.advertised(listener)
    return f"{host}:{port}"


def test_connections_without_authentication_get_no_tokens(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "requested",
        "delegation.token.secret.key": SECRET,
    }

    def errors(wire: TokenWire) -> set[int]:
        return {
            wire.create().error_code,
            wire.renew(b""),
            wire.expire(b""),
            wire.describe(all_owners=True).error_code,
        }

    def story(plaintext: str, encrypted: str) -> None:
        with TokenWire(plaintext) as wire:
            assert errors(wire) == {NOT_ALLOWED}
        with TokenWire(encrypted) as wire:
            context = ssl.create_default_context(cafile=str(authority.certificate))
            wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost")
            assert errors(wire) == {NOT_ALLOWED}
        with TokenWire(encrypted) as wire:
            context.load_cert_chain(str(authority.client.store))
            wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost")
            token = wire.create()
            assert (token.error_code, token.principal_name) == (0, "CN=client,OU=Tests,O=Penstock")

    async def on_loop() -> None:
        async with running_node(tmp_path / "node", **settings) as broker:
            await asyncio.to_thread(story, address(broker, "PLAINTEXT"), address(broker, "SSL"))

    run(on_loop())


@pytest.mark.parametrize("secret", ["", None])
def test_without_a_secret_tokens_are_disabled(tmp_path: Path, secret: str | None) -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "delegation.token.secret.key"}
    if secret is not None:
        settings["delegation.token.secret.key"] = secret

    def story(bootstrap: str) -> None:
        disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        with TokenWire(bootstrap) as wire:
            ann = wire.as_user("ann")
            assert ann.create().error_code == ann.describe(all_owners=True).error_code == disabled
            assert ann.renew(b"x") is ann.expire(b"x") is disabled
        with TokenWire(bootstrap) as wire:
            refused = wire.by_token("x", b"")
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    async def on_loop() -> None:
        async with running_node(tmp_path, **settings) as broker:
            await asyncio.to_thread(story, address(broker, "PLAINTEXT"))

    run(on_loop())


def test_tokens_outlast_a_restart_and_leave_when_they_have_expired(tmp_path: Path) -> None:
    settings = {**SETTINGS, "delegation.token.expiry.check.interval.ms": "20"}

    def created(bootstrap: str) -> CreateDelegationTokenResponse:
        with TokenWire(bootstrap) as wire:
            assert wire.as_user("ann").create(lifetime_ms=1).error_code == 0
            return wire.create()

    def is_let_in(bootstrap: str, token: CreateDelegationTokenResponse) -> bool:
        with TokenWire(bootstrap) as wire:
            return wire.by_token(token.token_id, token.hmac).error_code == 0

    async def on_loop() -> None:
        async with running_node(tmp_path, **settings) as broker:
            token = await asyncio.to_thread(created, address(broker, "PLAINTEXT"))
            left = [token.token_id]
            await asyncio.to_thread(wait_until, lambda: list(broker.image.delegation_tokens) == left)
        async with running_node(tmp_path, **settings) as broker:
            assert await asyncio.to_thread(is_let_in, address(broker, "PLAINTEXT"), token)

    run(on_loop())


def test_denials_are_in_the_audit_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def story(bootstrap: str) -> str:
        with TokenWire(bootstrap) as ann, TokenWire(bootstrap) as bob:
            assert ann.as_user("ann").create(owner=BOB).error_code == UNAUTHORIZED
            token = bob.as_user("bob").create()
            assert ann.seen() == set()
            return token.token_id

    async def on_loop() -> str:
        async with running_node(tmp_path, **SETTINGS) as broker:
            return await asyncio.to_thread(story, address(broker, "PLAINTEXT"))

    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    token_id = asyncio.run(on_loop())
    for operation, resource, request in (
        ("CREATE_TOKENS", "User:LITERAL:User:bob", "CreateDelegationToken"),
        ("DESCRIBE", f"DelegationToken:LITERAL:{token_id}", "DescribeDelegationToken"),
        ("DESCRIBE_TOKENS", "User:LITERAL:User:bob", "DescribeDelegationToken"),
    ):
        assert (
            f"Principal = User:ann is Denied operation = {operation} from host = 127.0.0.1 on resource = "
            f"{resource} for request = {request} with resourceRefCount = 1 based on rule DefaultDeny"
        ) in caplog.text


def test_the_secret_stays_on_the_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither configs nor logs nor the metadata log show it, nor a token's HMAC."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=4, resource_name="1")
    caplog.set_level(logging.DEBUG)

    def story(bootstrap: str) -> bytes:
        with TokenWire(bootstrap) as wire:
            token = wire.as_user("admin").create()
            request = DescribeConfigsRequest(resources=[resource])
            [result] = wire.ask(request, DescribeConfigsResponse).results
            [found] = [each for each in result.configs if each.name == "delegation.token.secret.key"]
            assert (found.value, found.is_sensitive) == (None, True)
        with TokenWire(bootstrap) as wire:
            assert wire.by_token(token.token_id, token.hmac).error_code == 0
        return bytes(token.hmac)

    async def on_loop() -> bytes:
        async with running_node(tmp_path, **SETTINGS) as broker:
            return await asyncio.to_thread(story, address(broker, "PLAINTEXT"))

    token_hmac = asyncio.run(on_loop())
    secrets = (SECRET.encode(), token_hmac, password_of(token_hmac).encode(), token_hmac.hex().encode())
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for text in (*written, caplog.text.encode()):
        assert not any(secret in text for secret in secrets)
