"""Listeners with GSSAPI: short names, refusals, sessions, and configurations that cannot be used."""

import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from test_sasl_authentication import SaslWire, on_a_node

from kdc import REALM, Kdc, login_settings
from penstock.broker.sasl.kerberos import short_name
from penstock.broker.sasl.listeners import NodeSasl
from penstock.broker.sasl.token_logins import TokenLogins
from penstock.metadata.configs import BrokerConfig, InvalidConfig
from penstock.metadata.image.scram import ScramImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import CreateTopicsRequest, CreateTopicsResponse, SaslAuthenticateResponse
from penstock.security.kerberos.settings import read_settings
from penstock.security.kerberos.short_names import ShortNames
from penstock.security.sasl import clients
from penstock.security.sasl.server import InvalidCredentials

contexts = pytest.importorskip("penstock.security.kerberos.contexts", exc_type=ImportError)
gssapi = pytest.importorskip("gssapi")

REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
RULES = "RULE:[2:$1-$2](ann-admin)s/-.*//U, RULE:[1:$1](bob)s/b/$0/, DEFAULT"
SASL = "listener.name.client.gssapi.sasl.jaas.config"
Connect = Callable[[], SaslWire]


@pytest.fixture(scope="module")
def server_keys(kdc: Kdc) -> Path:
    return kdc.add("kafka/127.0.0.1")


@pytest.fixture(scope="module")
def client_keys(kdc: Kdc) -> Path:
    return kdc.add("ann", "ann/admin", "admin", "bob")


def settings_of_node(server_keys: Path, **more: str) -> dict[str, str]:
    return {
        "listener.name.client.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.client.sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": RULES,
        SASL: login_settings(server_keys, "kafka/127.0.0.1"),
        **more,
    }


@pytest.fixture
def on_node(server_keys: Path, tmp_path: Path) -> Callable[..., object]:
    def run_story(story: Callable[[Connect], None], **more: str) -> object:
        return on_a_node(story, tmp_path, **settings_of_node(server_keys, **more))

    return run_story


@pytest.fixture
def begin(client_keys: Path) -> Callable[..., clients.KerberosTicket]:
    """Begin an exchange as a principal."""

    def ticket(principal: str = "ann", service: str = "kafka") -> clients.KerberosTicket:
        settings = read_settings(login_settings(client_keys, principal), service)
        found: clients.KerberosTicket = contexts.KerberosLogin(settings)("127.0.0.1")
        return found

    return ticket


def log_in(wire: SaslWire, ticket: clients.KerberosTicket) -> SaslAuthenticateResponse:
    """Talk until the end, and return the last answer."""
    assert wire.shake_hands("GSSAPI") is ErrorCode.NONE
    conversation = clients.converse("GSSAPI", ticket)
    message = next(conversation)
    while True:
        answer = wire.authenticate(message)
        if answer.error_code:
            return answer
        try:
            message = conversation.send(bytes(answer.auth_bytes))
        except StopIteration:
            return answer


def may_create_a_topic(wire: SaslWire, name: str) -> bool:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
    (result,) = wire.ask(request, CreateTopicsResponse).topics
    assert result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return result.error_code == ErrorCode.NONE


def test_acls_are_for_short_names(on_node: Callable[..., object], begin: Callable[..., object]) -> None:
    def story(connect: Connect) -> None:
        for principal, allowed in (("admin", True), ("ann", False), ("ann/admin", True), ("bob", False)):
            with connect() as wire:
                answer = log_in(wire, begin(principal))
                assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
                assert may_create_a_topic(wire, principal.replace("/", "-")) is allowed, principal

    on_node(story, **{"super.users": "User:admin;User:ANN;User:ANONYMOUS"})


def test_messages_without_headers_after_version_0(
    on_node: Callable[..., object], begin: Callable[..., clients.KerberosTicket]
) -> None:
    def story(connect: Connect) -> None:
        with connect() as wire:
            assert wire.shake_hands("GSSAPI", version=0) is ErrorCode.NONE
            conversation = clients.converse("GSSAPI", begin("admin"))
            message = next(conversation)
            for _ in range(3):
                wire.socket.sendall(struct.pack(">i", len(message)) + message)
                answer = bytes(wire.receive_frame())
                if answer:
                    message = conversation.send(answer)
            assert wire.is_in()

    on_node(story)


def test_wrong_tokens_harm_nobody_else(
    kdc: Kdc, on_node: Callable[..., object], begin: Callable[..., clients.KerberosTicket], server_keys: Path
) -> None:
    kdc.admin("addprinc -randkey http/127.0.0.1")

    def story(connect: Connect) -> None:
        token = begin().token
        with connect() as bystander:
            assert log_in(bystander, begin("admin")).error_code == 0
            for wrong in (
                b"",
                token[:40],
                token[:-3] + b"abc",
                b"\x60" * 400_000,
                begin(service="http").token,
            ):
                with connect() as wire:
                    assert wire.shake_hands("GSSAPI") is ErrorCode.NONE
                    answer = wire.authenticate(wrong)
                    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                    assert answer.error_message == REFUSED
                    assert wire.is_closed()
            assert bystander.is_in()

    on_node(story)


def test_a_replay_is_refused(
    on_node: Callable[..., object], begin: Callable[..., clients.KerberosTicket]
) -> None:
    """As a running Apache Kafka does; its code wants to close the connection, but cannot see the reason."""

    def story(connect: Connect) -> None:
        token = begin().token
        with connect() as first, connect() as second:
            assert first.shake_hands("GSSAPI") is second.shake_hands("GSSAPI") is ErrorCode.NONE
            assert first.authenticate(token).error_code == 0
            answer = second.authenticate(token)
            assert (answer.error_code, answer.error_message) == (
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                REFUSED,
            )
            assert second.is_closed()

    on_node(story)


def test_a_token_that_is_too_large(on_node: Callable[..., object]) -> None:
    def story(connect: Connect) -> None:
        with connect() as wire:
            assert wire.shake_hands("GSSAPI") is ErrorCode.NONE
            with pytest.raises((ConnectionError, OSError)):
                wire.authenticate(b"\x60" * 600_000)

    on_node(story)


def test_a_principal_without_a_short_name_is_refused(
    on_node: Callable[..., object], begin: Callable[..., clients.KerberosTicket]
) -> None:
    def story(connect: Connect) -> None:
        with connect() as wire:
            answer = log_in(wire, begin("ann"))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message == REFUSED
            assert wire.is_closed()
        with connect() as wire:
            assert log_in(wire, begin("ann/admin")).error_code == 0

    on_node(story, **{"sasl.kerberos.principal.to.local.rules": "RULE:[2:$2]"})


def test_a_separator_within_a_component_is_refused() -> None:
    """It must not pass for one between components."""
    principal = str(gssapi.Name(rf"ann\/admin@{REALM}", gssapi.NameType.kerberos_principal))
    assert principal == rf"ann\/admin@{REALM}"
    with pytest.raises(InvalidCredentials, match="Malformed Kerberos name"):
        short_name(ShortNames(REALM, ["RULE:[2:$2]", "DEFAULT"]), principal)


def test_a_session_goes_on_after_another_login(
    on_node: Callable[..., object], begin: Callable[..., clients.KerberosTicket]
) -> None:
    def story(connect: Connect) -> None:
        with connect() as wire:
            assert log_in(wire, begin("admin")).session_lifetime_ms == 60_000
            assert log_in(wire, begin("admin")).session_lifetime_ms == 60_000
            assert wire.is_in()
        with connect() as wire:
            assert log_in(wire, begin("admin")).error_code == 0
            answer = log_in(wire, begin("ann"))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message == (
                "Cannot change principals during re-authentication from User.admin: User.ann"
            )

    on_node(story, **{"listener.name.client.gssapi.connections.max.reauth.ms": "60000"})


@pytest.fixture
def read(server_keys: Path, tmp_path: Path) -> Iterator[Callable[..., NodeSasl]]:
    """Read the configuration of a node's SASL."""

    def sasl(**more: str) -> NodeSasl:
        settings = {
            "log.dirs": str(tmp_path),
            "listeners": "PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:0",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT"
            ),
            **settings_of_node(server_keys, **more),
        }
        tokens = TokenLogins(None, dict)
        return NodeSasl(BrokerConfig.single_node(settings), ScramImage, tokens, lambda: 0, Random())

    return sasl


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({SASL: "x"}, r"GSSAPI on listener CLIENT: sasl\.jaas\.config: expected 'com\.sun"),
        ({SASL: "a.B required;"}, r"found the login module a\.B, expected com\.sun"),
        (
            {SASL: login_settings(Path("/nowhere"), "kafka/127.0.0.1")},
            rf"no keys for kafka/127\.0\.0\.1@{REALM} in /nowhere: .*'/nowhere' not found",
        ),
        (
            {"listener.name.client.sasl.kerberos.service.name": ""},
            "No serviceName defined in either JAAS or Kafka config",
        ),
        (
            {"sasl.kerberos.principal.to.local.rules": "RULE:"},
            "GSSAPI on listener CLIENT: .*Invalid rule: RULE:",
        ),
    ],
)
def test_configurations_that_cannot_be_used(
    read: Callable[..., NodeSasl], settings: dict[str, str], reason: str
) -> None:
    assert read().of("CLIENT") is not None
    with pytest.raises(InvalidConfig, match=reason):
        read(**settings)


def test_a_node_without_the_package_names_the_extra(
    read: Callable[..., NodeSasl], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "penstock.security.kerberos.contexts")
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(InvalidConfig, match=r"SASL/GSSAPI needs gssapi\. Install .*penstock\[kerberos\]"):
        read()
