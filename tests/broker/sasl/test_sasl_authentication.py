"""The states of a connection that authenticates by SASL, on the wire."""

import asyncio
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from test_sasl_listeners import node_with

from broker_wire import Wire
from in_process import run
from penstock.broker.metrics.sasl_metrics import sasl_metrics
from penstock.broker.node import Broker
from penstock.broker.sasl import authentication
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from waiting import wait_until

SESSIONS = {"listener.name.client.plain.connections.max.reauth.ms": "60000"}
ANN, ADMIN = b"\0ann\0ann-secret", b"\0admin\0admin-secret"


class SaslWire(Wire):
    """A connection to a listener with SASL."""

    def shake_hands(self, mechanism: str = "PLAIN", version: int = 1) -> ErrorCode:
        answer = self.ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, version)
        return ErrorCode.of(answer.error_code)

    def authenticate(self, message: bytes, version: int = 2) -> SaslAuthenticateResponse:
        return self.ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, version)

    def log_in(self, message: bytes = ANN, version: int = 2) -> SaslAuthenticateResponse:
        assert self.shake_hands() is ErrorCode.NONE
        return self.authenticate(message, version)

    def is_in(self) -> bool:
        """Whether the node serves other requests."""
        try:
            return bool(self.ask(MetadataRequest(), MetadataResponse).brokers)
        except (ConnectionError, OSError):
            return False


def on_a_node(
    story: Callable[[Callable[[], SaslWire]], None],
    directory: Path,
    listener: str = "CLIENT",
    **settings: str,
) -> Broker:
    """Run a blocking story with connections to a listener, and return the node for a look at it."""
    found: list[Broker] = []

    async def on_loop() -> None:
        async with node_with(directory, **settings) as broker:
            found.append(broker)
            host, port = broker.advertised(listener)
            await asyncio.to_thread(story, lambda: SaslWire(f"{host}:{port}", 20))

    run(on_loop())
    return found[0]


def test_a_client_asks_for_versions_and_authenticates(tmp_path: Path) -> None:
    def story(connect: Callable[[], SaslWire]) -> None:
        for version in range(3):
            with connect() as wire:
                assert wire.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
                answer = wire.log_in(version=version)
                assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
                assert wire.is_in()

    on_a_node(story, tmp_path)


def test_messages_without_headers_after_version_0(tmp_path: Path) -> None:
    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as wire:
            assert wire.shake_hands(version=0) is ErrorCode.NONE
            wire.socket.sendall(struct.pack(">i", len(ANN)) + ANN)
            assert wire.receive_frame() == b""
            assert wire.is_in()
        with connect() as wire:
            assert wire.shake_hands(version=0) is ErrorCode.NONE
            wire.socket.sendall(struct.pack(">i", 5) + b"\0a\0bc")
            assert wire.is_closed()

    on_a_node(story, tmp_path)


def test_nothing_else_comes_before_authentication(tmp_path: Path) -> None:
    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as wire:
            wire.send(MetadataRequest())
            assert wire.is_closed()
        with connect() as wire:  # it must choose a mechanism first
            wire.send(SaslAuthenticateRequest(auth_bytes=ANN))
            assert wire.is_closed()
        with connect() as wire:  # no request may come between
            assert wire.shake_hands() is ErrorCode.NONE
            wire.send(MetadataRequest())
            assert wire.is_closed()
        with connect() as wire:
            wire.socket.sendall(struct.pack(">i", 524_289))
            assert wire.is_closed(), "the limit is sasl.server.max.receive.size"
        with connect() as wire:  # pipelined behind a login that fails
            wire.send(SaslHandshakeRequest(mechanism="PLAIN"))
            wire.send(SaslAuthenticateRequest(auth_bytes=b"\0ann\0wrong"))
            wire.send(MetadataRequest())
            wire.receive(SaslHandshakeResponse)
            refused = wire.receive(SaslAuthenticateResponse)
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert wire.is_closed(), "the third request gets no answer"

    on_a_node(story, tmp_path)


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(tmp_path: Path) -> None:
    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as wire:
            answer = wire.ask(SaslHandshakeRequest(mechanism="GSSAPI"), SaslHandshakeResponse)
            assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
            assert wire.is_closed()

    on_a_node(story, tmp_path)


def test_a_client_that_does_not_authenticate_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "TIME_LIMIT_S", 0.2)

    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as silent, connect() as half, connect() as done:
            assert done.log_in().error_code == 0
            assert half.shake_hands() is ErrorCode.NONE
            assert silent.is_closed()
            assert half.is_closed()
            assert done.is_in()

    on_a_node(story, tmp_path)


def test_a_failed_login_is_closed_after_a_delay(tmp_path: Path) -> None:
    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as wire:
            assert wire.log_in(b"\0ann\0wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert not wire.is_closed(within_s=0.1)
            wire.socket.settimeout(0.1)
            with pytest.raises(TimeoutError):
                wire.ask(SaslAuthenticateRequest(auth_bytes=ANN), SaslAuthenticateResponse)

    on_a_node(story, tmp_path, **{"connection.failed.authentication.delay.ms": "60000"})


def test_a_session_ends_unless_the_client_authenticates_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "AGAIN_AFTER_S", 0.0)
    lifetime = {"listener.name.client.plain.connections.max.reauth.ms": "1000"}

    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as lazy, connect() as eager:
            assert lazy.log_in().session_lifetime_ms == 1000
            assert eager.log_in().session_lifetime_ms == 1000
            for _ in range(3):
                assert eager.log_in().session_lifetime_ms == 1000
                assert eager.is_in()
            eager.is_closed(within_s=1.1)
            assert not lazy.is_in(), "its session has ended"
            assert eager.log_in().error_code == 0, "it may still authenticate again"
            assert eager.is_in()

    on_a_node(story, tmp_path, **lifetime)


def test_nobody_becomes_another_by_authenticating_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "AGAIN_AFTER_S", 0.0)

    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as wire:
            assert wire.log_in().error_code == 0
            refused = wire.log_in(ADMIN)
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert refused.error_message == (
                "Cannot change principals during re-authentication from User.ann: User.admin"
            )
            assert wire.is_closed()
        with connect() as wire:
            assert wire.log_in().error_code == 0
            assert wire.shake_hands("SCRAM-SHA-256") is ErrorCode.NONE
            wire.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=ann,r=x"))
            assert wire.is_closed()

    on_a_node(story, tmp_path, **SESSIONS)


def test_authenticating_again_at_once_is_an_illegal_state(tmp_path: Path) -> None:
    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as wire:
            assert wire.log_in().error_code == 0
            assert wire.log_in().error_code == 0, "the first time is not counted"
            assert wire.shake_hands() is ErrorCode.ILLEGAL_SASL_STATE
            assert wire.authenticate(ANN).error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert wire.is_in()

    on_a_node(story, tmp_path, **SESSIONS)


def test_a_session_without_an_end_needs_no_second_login(tmp_path: Path) -> None:
    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as wire:
            assert wire.log_in().error_code == 0
            assert wire.shake_hands() is ErrorCode.ILLEGAL_SASL_STATE
            assert wire.is_in()

    on_a_node(story, tmp_path)


def test_a_listener_without_sasl_answers_an_illegal_state(tmp_path: Path) -> None:
    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as wire:
            assert wire.shake_hands() is ErrorCode.ILLEGAL_SASL_STATE
            assert wire.authenticate(ANN).error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert wire.is_in()

    on_a_node(story, tmp_path, "PLAINTEXT")


def test_logins_are_counted_by_listener_and_mechanism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "AGAIN_AFTER_S", 0.0)

    def story(connect: Callable[[], SaslWire]) -> None:
        with connect() as wire:  # a request before the client has chosen a mechanism
            wire.send(MetadataRequest())
            assert wire.is_closed()
        with connect() as wire:
            assert wire.shake_hands("GSSAPI") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
        with connect() as wire:  # a request amid the login
            assert wire.shake_hands("SCRAM-SHA-512") is ErrorCode.NONE
            wire.send(MetadataRequest())
            assert wire.is_closed()
        with connect() as wire:
            assert wire.log_in(b"\0ann\0wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with connect() as wire:  # as messages without headers
            assert wire.shake_hands(version=0) is ErrorCode.NONE
            wire.socket.sendall(struct.pack(">i", 5) + b"\0a\0bc")
            assert wire.is_closed()
        with connect() as wire:
            for _ in range(3):
                assert wire.log_in().error_code == 0
            assert wire.log_in(ADMIN).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with connect() as wire:
            assert wire.log_in().error_code == 0
            assert wire.shake_hands("SCRAM-SHA-256") is ErrorCode.NONE
            wire.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=ann,r=x"))
            assert wire.is_closed()
        with connect() as wire:
            assert wire.log_in().error_code == 0
            wait_until(lambda: not wire.is_in())

    lifetime = {"listener.name.client.plain.connections.max.reauth.ms": "1000"}
    broker = on_a_node(story, tmp_path, **lifetime)
    counted = {
        (metric.name.removeprefix("penstock_sasl_"), sample.labels["mechanism"]): sample.value
        for metric in sasl_metrics(broker.sasl)
        for sample in metric.samples
        if sample.value and sample.labels["listener"] == "CLIENT"
    }
    assert counted == {
        ("authentications_failed", "none"): 2,
        ("authentications_failed", "SCRAM-SHA-512"): 1,
        ("authentications_failed", "PLAIN"): 2,
        ("authentications", "PLAIN"): 3,
        ("reauthentications", "PLAIN"): 2,
        ("reauthentications_failed", "PLAIN"): 2,
        ("sessions_expired", "PLAIN"): 1,
    }


def test_a_connection_that_goes_away_leaves_no_timer(tmp_path: Path) -> None:
    def story(connect: Callable[[], SaslWire]) -> None:
        for _ in range(3):
            with connect() as wire:
                assert wire.shake_hands() is ErrorCode.NONE
                wire.socket.shutdown(socket.SHUT_RDWR)

    broker = on_a_node(story, tmp_path)
    assert not broker.server.connections
