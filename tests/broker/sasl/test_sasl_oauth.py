"""Listeners with OAUTHBEARER: who comes in with which token, for how long, and which settings are refused."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from test_sasl_authentication import SaslWire
from test_sasl_listeners import TIMEOUT_S

from certificates import Authority
from in_process import run, running_node
from issuer import AUDIENCE, NAME, Issuer, IssuerServer
from penstock.broker.node import Broker, CannotStart
from penstock.broker.sasl import authentication
from penstock.protocol.errors import ErrorCode
from penstock.security.oauth.names import SECURE_HANDLER, UNSECURED_HANDLER
from penstock.security.tokens.unsecured import unsecured_token

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PREFIX = "listener.name.client.oauthbearer."
UNSECURED_OPTIONS = {"unsecuredLoginStringClaim_sub": "ann"}

Connect = Callable[[], SaslWire]


def settings_of(jwks: str) -> dict[str, str]:
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:0",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "listener.name.client.sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.issuer": NAME,
        "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
        "sasl.oauthbearer.jwks.endpoint.url": jwks,
    }


def node_with(directory: Path, jwks: str, **changed: str | None) -> AbstractAsyncContextManager[Broker]:
    settings = {name: value for name, value in (settings_of(jwks) | changed).items() if value is not None}
    return running_node(directory / "node", **settings)


def on_a_node(story: Callable[[Connect], None], directory: Path, jwks: str, **changed: str | None) -> None:
    """Run a blocking story with connections to the listener."""

    async def on_loop() -> None:
        async with node_with(directory, jwks, **changed) as broker:
            host, port = broker.advertised("CLIENT")
            await asyncio.to_thread(story, lambda: SaslWire(f"{host}:{port}", TIMEOUT_S))

    run(on_loop())


def first_message(token: str, authorized: str = "") -> bytes:
    return f"n,{authorized and f'a={authorized}'},\1auth=Bearer {token}\1\1".encode()


def log_in(wire: SaslWire, token: str, authorized: str = "") -> tuple[ErrorCode, str, int]:
    """Log in; return the error, its message, and the time of the session."""
    assert wire.shake_hands("OAUTHBEARER") is ErrorCode.NONE
    answer = wire.authenticate(first_message(token, authorized))
    if answer.auth_bytes:
        assert json.loads(answer.auth_bytes)["status"] in ("invalid_token", "insufficient_scope")
        answer = wire.authenticate(b"\1")
    return ErrorCode.of(answer.error_code), answer.error_message or "", answer.session_lifetime_ms


@pytest.fixture
def issuer() -> Issuer:
    issuer = Issuer()
    issuer.key()
    return issuer


@pytest.fixture
def jwks(issuer: Issuer, tmp_path: Path) -> str:
    file = tmp_path / "jwks.json"
    file.write_text(issuer.jwks())
    return file.as_uri()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def server(issuer: Issuer, authority: Authority) -> Iterator[IssuerServer]:
    with IssuerServer(issuer, authority) as server:
        yield server


def trusting(authority: Authority) -> dict[str, str | None]:
    """The TLS of the endpoint, which is among the options of the login module."""
    return {
        f"{PREFIX}sasl.jaas.config": f'{MODULE} required ssl.truststore.location="{authority.certificate}";'
    }


def test_a_token_makes_the_principal_and_the_session(tmp_path: Path, issuer: Issuer, jwks: str) -> None:
    def story(connect: Connect) -> None:
        with connect() as wire:
            code, _, session_ms = log_in(wire, issuer.token("ann", lifetime_s=1000), "ann")
            assert code is ErrorCode.NONE
            assert 990_000 < session_ms <= 1_000_000
            assert wire.is_in()

    on_a_node(story, tmp_path, jwks)


def test_the_shorter_end_of_a_session_counts(tmp_path: Path, issuer: Issuer, jwks: str) -> None:
    def story(connect: Connect) -> None:
        with connect() as wire:
            assert log_in(wire, issuer.token())[2] == 60_000
        with connect() as wire:
            assert 0 < log_in(wire, issuer.token(lifetime_s=50))[2] <= 50_000

    on_a_node(story, tmp_path, jwks, **{f"{PREFIX}connections.max.reauth.ms": "60000"})


def test_refused_tokens(tmp_path: Path, issuer: Issuer, jwks: str, caplog: pytest.LogCaptureFixture) -> None:
    refused = (ErrorCode.SASL_AUTHENTICATION_FAILED, '{"status":"invalid_token"}', 0)
    tokens = {
        "has expired": issuer.token(lifetime_s=-100),
        "the audience (aud) is ['x']": issuer.token(aud="x"),
        "the issuer (iss) is missing": issuer.token(iss=None),
        "there is no key": issuer.token(key="unknown"),
        "the header's alg is 'none'": unsecured_token(UNSECURED_OPTIONS, int(time.time() * 1000)),
    }

    def story(connect: Connect) -> None:
        for token in tokens.values():
            with connect() as wire:
                assert log_in(wire, token) == refused
                assert wire.is_closed()
        with connect() as wire:
            code, message, _ = log_in(wire, issuer.token("ann"), "root")
            assert code is ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "authorization id (root)" in message
            assert wire.is_closed()
        with connect() as wire:
            assert wire.shake_hands("OAUTHBEARER") is ErrorCode.NONE
            answer = wire.authenticate(b"\0ann\0x")
            assert "due to invalid credentials with SASL mechanism OAUTHBEARER" in str(answer.error_message)
            assert wire.is_closed()

    with caplog.at_level(logging.INFO):
        on_a_node(story, tmp_path, jwks)
    for reason, token in tokens.items():
        assert reason in caplog.text
        assert token.split(".")[1] not in caplog.text


def test_a_session_ends_with_its_token(
    tmp_path: Path, issuer: Issuer, jwks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "AGAIN_AFTER_S", 0.0)

    def story(connect: Connect) -> None:
        with connect() as lazy, connect() as eager:
            for wire in (lazy, eager):
                assert 0 < log_in(wire, issuer.token(lifetime_s=2))[2] <= 2_000
            assert log_in(eager, issuer.token(lifetime_s=100))[2] > 2_000
            while lazy.is_in():
                time.sleep(0.05)  # the end of the session is not announced
            assert eager.is_in()
            code, message, _ = log_in(eager, issuer.token("bob"))
            assert code is ErrorCode.SASL_AUTHENTICATION_FAILED
            assert message.startswith("Cannot change principals during re-authentication")

    on_a_node(story, tmp_path, jwks)


def test_keys_in_a_file_may_change(tmp_path: Path, issuer: Issuer, jwks: str) -> None:
    file = tmp_path / "jwks.json"

    def story(connect: Connect) -> None:
        renewed = issuer.token(key="second")
        for content, accepted in (
            (None, False),
            (issuer.jwks("first", "second"), True),
            ("{", True),
            (issuer.jwks("first"), False),
        ):
            if content is not None:
                file.write_text(content)
            with connect() as wire:
                code = log_in(wire, renewed)[0]
            assert (code is ErrorCode.NONE) is accepted, content

    on_a_node(story, tmp_path, jwks)


def test_a_new_key_is_fetched_and_an_invented_one_does_not_flood(
    tmp_path: Path, issuer: Issuer, server: IssuerServer, authority: Authority
) -> None:
    def story(connect: Connect) -> None:
        assert server.count("/jwks") == 1, "fetched before the first client"
        renewed = issuer.token(key="second")
        codes = []
        while not codes or codes[-1] is not ErrorCode.NONE:
            with connect() as wire:
                codes.append(log_in(wire, renewed)[0])
        assert len(codes) > 1, "the first login does not wait for the keys"
        assert server.count("/jwks") == 2
        strangers = Issuer()
        for number in range(40):
            with connect() as wire:
                assert log_in(wire, strangers.token(key=f"k{number % 20}"))[0] is not ErrorCode.NONE
        assert server.count("/jwks") <= 3, "one fetch in ten seconds is the most"

    changed = {**trusting(authority), "connection.failed.authentication.delay.ms": "0"}
    on_a_node(story, tmp_path, server.url("/jwks"), **changed)


def test_a_slow_issuer_does_not_stop_the_node(
    tmp_path: Path, issuer: Issuer, server: IssuerServer, authority: Authority
) -> None:
    may_answer, has_answered = threading.Event(), threading.Event()

    def slow() -> tuple[int, str]:
        may_answer.wait(TIMEOUT_S / 2)
        has_answered.set()
        return 200, issuer.jwks()

    def story(connect: Connect) -> None:
        server.answers["/jwks"] = slow
        with connect() as wire:
            assert log_in(wire, issuer.token(key="second"))[0] is not ErrorCode.NONE
        while server.count("/jwks") < 2:
            time.sleep(0.01)
        with connect() as wire:
            assert log_in(wire, issuer.token())[0] is ErrorCode.NONE
            assert wire.is_in()
        assert not has_answered.is_set(), "the node has waited for the issuer"
        may_answer.set()

    on_a_node(story, tmp_path, server.url("/jwks"), **trusting(authority))


def test_a_node_does_not_start_without_its_issuers_keys(
    tmp_path: Path, server: IssuerServer, authority: Authority
) -> None:
    backoff = {"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "100"}
    server.answers["/jwks"] = lambda: (503, "not now")
    empty = tmp_path / "empty.json"
    empty.write_text('{"keys":[]}')
    for url, changed, reason in (
        (server.url("/jwks"), trusting(authority), r"answers 503: not now"),
        (server.url("/jwks"), {}, r"cannot be reached: .*certificate verify failed"),
        (f"file://{tmp_path}/missing.json", {}, r"No such file"),
        (empty.as_uri(), {}, r"has no key that verifies signatures"),
    ):
        with pytest.raises(CannotStart, match=f"cannot verify tokens: .*{reason}"):
            on_a_node(lambda _connect: None, tmp_path / reason, url, **backoff, **changed)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": None}, "jwks.endpoint.url: it is not set"),
        ({"sasl.oauthbearer.expected.issuer": None}, "expected.issuer: it is not set"),
        ({"sasl.oauthbearer.expected.issuer": " "}, "expected.issuer: it is not set"),
        ({"sasl.oauthbearer.expected.audience": None}, "expected.audience: it is not set"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "http://issuer.example/"}, "expected https:"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "jwks.json"}, "expected a URL that begins with file:"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "https://a:b@issuer.example/"}, "without a user"),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "a whole number from 0 on"),
        ({f"{PREFIX}sasl.server.callback.handler.class": "com.example.Mine"}, "classes cannot be loaded"),
        (
            {
                "sasl.oauthbearer.jwt.validator.class": (
                    "org.apache.kafka.common.security.oauthbearer.ClientJwtValidator"
                )
            },
            "expected .*DefaultJwtValidator",
        ),
        ({f"{PREFIX}sasl.jaas.config": "x"}, "expected '.*OAuthBearerLoginModule required"),
        ({f"{PREFIX}sasl.jaas.config": "com.example.Mine required;"}, "found the login module"),
        (
            {
                "sasl.oauthbearer.jwks.endpoint.url": None,
                f"{PREFIX}sasl.jaas.config": f'{MODULE} required unsecuredValidatorScopeClaimName="s";',
            },
            "jwks.endpoint.url: it is not set",
        ),
    ],
)
def test_settings_that_a_node_refuses(
    tmp_path: Path, jwks: str, changed: dict[str, str | None], reason: str
) -> None:
    with pytest.raises(CannotStart, match=reason):
        on_a_node(lambda _connect: None, tmp_path, jwks, **changed)


def test_settings_of_a_listener_precede_those_of_all(tmp_path: Path, issuer: Issuer, jwks: str) -> None:
    def story(connect: Connect) -> None:
        with connect() as wire:
            assert log_in(wire, issuer.token(aud="mine", azp="bert"))[0] is ErrorCode.NONE

    changed = {
        f"{PREFIX}sasl.oauthbearer.expected.audience": "mine",
        "listener.name.client.sasl.oauthbearer.sub.claim.name": "azp",
        "sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere",
        f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": jwks,
        f"{PREFIX}sasl.server.callback.handler.class": SECURE_HANDLER,
    }
    on_a_node(story, tmp_path, jwks, **changed)


def test_tokens_without_signature_only_if_the_settings_say_so(
    tmp_path: Path, issuer: Issuer, jwks: str, caplog: pytest.LogCaptureFixture
) -> None:
    def story(connect: Connect) -> None:
        token = unsecured_token(UNSECURED_OPTIONS, int(time.time() * 1000))
        with connect() as wire:
            assert log_in(wire, token)[0] is ErrorCode.SASL_AUTHENTICATION_FAILED
        scoped = {**UNSECURED_OPTIONS, "unsecuredLoginListClaim_scope": "|a|b"}
        with connect() as wire:
            token = unsecured_token(scoped, int(time.time() * 1000))
            code, _, session_ms = log_in(wire, token)
            assert code is ErrorCode.NONE
            assert 3_500_000 < session_ms <= 3_600_000
        with connect() as wire:
            assert log_in(wire, issuer.token())[0] is ErrorCode.SASL_AUTHENTICATION_FAILED

    changed = {
        "sasl.oauthbearer.jwks.endpoint.url": None,
        f"{PREFIX}sasl.server.callback.handler.class": UNSECURED_HANDLER,
        f"{PREFIX}sasl.jaas.config": f'{MODULE} required unsecuredValidatorRequiredScope="a b";',
    }
    on_a_node(story, tmp_path, jwks, **changed)
    assert "everybody can log in as anybody: tokens need no signature listener=CLIENT" in caplog.text


def test_nobody_sets_the_urls_over_the_wire(tmp_path: Path, jwks: str) -> None:
    async def story() -> None:
        async with node_with(tmp_path, jwks) as broker:
            host, port = broker.advertised("PLAINTEXT")
            admin = AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0})
            for name in (
                "sasl.oauthbearer.jwks.endpoint.url",
                f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url",
                f"{PREFIX}sasl.oauthbearer.token.endpoint.url",
                f"{PREFIX}sasl.server.callback.handler.class",
            ):
                entry = ConfigEntry(name, "file:///etc/passwd", incremental_operation=AlterConfigOpType.SET)
                resource = ConfigResource(
                    ResourceType.BROKER, str(broker.node_id), incremental_configs=[entry]
                )
                altered = admin.incremental_alter_configs([resource])[resource]
                with pytest.raises(KafkaException, match="Cannot update these configs dynamically"):
                    await asyncio.to_thread(altered.result, TIMEOUT_S)

    run(story())
