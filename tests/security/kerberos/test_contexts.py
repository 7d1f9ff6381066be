"""Exchanges of GSSAPI between both sides, with tickets of a real KDC: what is let in, and what is refused."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kdc import REALM, Kdc, login_settings
from penstock.security.kerberos.settings import InvalidKerberos, KerberosSettings, read_settings
from penstock.security.sasl import clients
from penstock.security.sasl.clients import KerberosTicket, LoginUnavailable, SaslRejected
from penstock.security.sasl.gssapi import OFFER, converse
from penstock.security.sasl.server import Authenticated, InvalidCredentials
from waiting import wait_until

contexts = pytest.importorskip("penstock.security.kerberos.contexts", exc_type=ImportError)

Login = Callable[[str], KerberosTicket]


@pytest.fixture(scope="module")
def server_keys(kdc: Kdc) -> Path:
    return kdc.add("kafka/localhost")


@pytest.fixture(scope="module")
def ann_keys(kdc: Kdc) -> Path:
    return kdc.add("ann")


def server_settings(keytab: Path) -> KerberosSettings:
    return read_settings(login_settings(keytab, "kafka/localhost"), "kafka")


@pytest.fixture
def acceptor(server_keys: Path) -> "contexts.Acceptor":
    return contexts.Acceptor(server_settings(server_keys))


def new_login(keytab: Path, principal: str = "ann", service: str = "kafka") -> Login:
    login: Login = contexts.KerberosLogin(read_settings(login_settings(keytab, principal), service))
    return login


@pytest.fixture
def login(ann_keys: Path) -> Login:
    return new_login(ann_keys)


@pytest.fixture
def strict_clock(kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let libkrb5 in this process allow clocks to differ by one second."""
    strict = tmp_path / "krb5.conf"
    strict.write_text(kdc.config.read_text().replace("[libdefaults]", "[libdefaults]\n clockskew = 1", 1))
    monkeypatch.setenv("KRB5_CONFIG", str(strict))


def wait(time_s: float) -> None:
    """Wait until the clock by which tickets expire has moved on."""
    end_s = time.time() + time_s
    wait_until(lambda: time.time() > end_s)


def exchange(acceptor: "contexts.Acceptor", ticket: KerberosTicket) -> tuple[Authenticated, int]:
    """Let both sides talk until the end; return the server's result and the number of messages."""
    server = converse(acceptor.new_context, str)
    client = clients.converse("GSSAPI", ticket)
    next(server)
    message, count = next(client), 0
    while True:
        count += 1
        try:
            answer = server.send(message)
        except StopIteration as done:
            outcome: Authenticated = done.value
            with pytest.raises(StopIteration):
                client.send(outcome.answer)
            return outcome, count
        message = client.send(answer)


def test_both_sides_agree(acceptor: "contexts.Acceptor", login: Login) -> None:
    for _ in range(2):  # the second time with the tickets of the first
        assert exchange(acceptor, login("localhost")) == (Authenticated(f"ann@{REALM}"), 3)


def test_the_default_realm_is_that_of_the_configuration(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    assert contexts.default_realm() == REALM
    monkeypatch.setenv("KRB5_CONFIG", "/dev/null")
    assert contexts.default_realm() == ""


def test_a_ticket_cache_serves_a_client(
    kdc: Kdc, acceptor: "contexts.Acceptor", ann_keys: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "tickets"
    kdc.kinit(ann_keys, "ann", cache)
    settings = read_settings(
        f'com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="{cache}";',
        "kafka",
    )
    ticket = contexts.KerberosLogin(settings)("localhost")
    assert ticket.principal == f"ann@{REALM}"
    assert exchange(acceptor, ticket)[0].name == f"ann@{REALM}"


def test_keys_change_while_the_server_runs(kdc: Kdc, login: Login) -> None:
    keytab = kdc.add("kafka/rotated")
    acceptor = contexts.Acceptor(read_settings(login_settings(keytab, "kafka/rotated"), "kafka"))
    kdc.admin(f"ktadd -k {keytab} kafka/rotated")
    assert exchange(acceptor, login("rotated"))[0].name == f"ann@{REALM}"


def test_a_replay_is_refused(acceptor: "contexts.Acceptor", login: Login) -> None:
    token = login("localhost").token
    acceptor.new_context().step(token)
    with pytest.raises(InvalidCredentials, match="Request is a replay"):
        acceptor.new_context().step(token)


def test_tokens_that_are_no_tokens(acceptor: "contexts.Acceptor", login: Login) -> None:
    token = login("localhost").token
    spnego = bytes.fromhex("6006062b0601050502")
    for wrong in (b"", b"\0", b"x" * 500_000, token[:-1], token[:30], token[:-4] + b"zzzz", spnego + token):
        with pytest.raises(InvalidCredentials, match=r"\w") as refusal:
            acceptor.new_context().step(wrong)
        assert "Success" not in str(refusal.value)
    assert exchange(acceptor, login("localhost"))[0].name == f"ann@{REALM}"


def test_a_ticket_for_another_service(
    kdc: Kdc, acceptor: "contexts.Acceptor", server_keys: Path, ann_keys: Path
) -> None:
    """The key table may have the keys of other services, for which a server does not stand."""
    kdc.admin("addprinc -randkey other/localhost")
    kdc.admin(f"ktadd -k {server_keys} other/localhost")
    ticket = new_login(ann_keys, service="other")("localhost")
    with pytest.raises(InvalidCredentials, match="Cannot decrypt ticket for other/localhost"):
        acceptor.new_context().step(ticket.token)


def test_a_clock_that_is_wrong(acceptor: "contexts.Acceptor", login: Login, strict_clock: None) -> None:
    token = login("localhost").token
    wait(2.1)
    with pytest.raises(InvalidCredentials, match="Clock skew too great"):
        acceptor.new_context().step(token)


def test_an_expired_ticket(kdc: Kdc, ann_keys: Path, strict_clock: None, tmp_path: Path) -> None:
    cache = tmp_path / "tickets"
    kdc.kinit(ann_keys, "ann", cache, "-l", "1s")
    settings = read_settings(
        f'com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="{cache}";',
        "kafka",
    )
    wait(3.1)
    with pytest.raises(LoginUnavailable, match=r"no ticket for kafka@localhost: .*expired"):
        contexts.KerberosLogin(settings)("localhost")


def test_a_login_from_keys_outlives_its_ticket(
    kdc: Kdc, acceptor: "contexts.Acceptor", strict_clock: None
) -> None:
    login = new_login(kdc.add("brief", options="-maxlife 2s"), "brief")
    assert exchange(acceptor, login("localhost"))[0].name == f"brief@{REALM}"
    wait(3.1)
    assert exchange(acceptor, login("localhost"))[0].name == f"brief@{REALM}"


def test_a_server_without_its_keys(server_keys: Path, ann_keys: Path) -> None:
    with pytest.raises(InvalidKerberos, match=r"no keys for .* in .*: No key table entry found"):
        contexts.Acceptor(server_settings(ann_keys))
    with pytest.raises(InvalidKerberos, match="'/nowhere' not found"):
        contexts.Acceptor(server_settings(Path("/nowhere")))


def test_a_client_without_a_ticket(kdc: Kdc, ann_keys: Path, login: Login) -> None:
    with pytest.raises(LoginUnavailable, match=r"Server kafka/nowhere@.* not found"):
        login("nowhere")
    with pytest.raises(LoginUnavailable, match="no ticket for kafka@localhost: "):
        new_login(Path("/nowhere"))("localhost")
    keys_of_before = kdc.add("bob").rename(kdc.home / "before.keytab")
    kdc.admin(f"ktadd -k {kdc.home / 'now.keytab'} bob")
    with pytest.raises(LoginUnavailable, match="Decrypt integrity check failed"):
        new_login(keys_of_before, "bob")("localhost")


def test_a_client_without_a_kdc(kdc: Kdc, ann_keys: Path) -> None:
    kdc.stop()
    try:
        with pytest.raises(LoginUnavailable, match="Cannot contact any KDC"):
            new_login(ann_keys)("localhost")
    finally:
        kdc.start()


def test_a_false_server_is_found_out(acceptor: "contexts.Acceptor", login: Login) -> None:
    """It cannot prove that it has the keys of the service."""
    client = clients.converse("GSSAPI", login("localhost"))
    next(client)
    with pytest.raises(SaslRejected):
        client.send(b"let me in")
    client, other = (clients.converse("GSSAPI", login("localhost")) for _ in range(2))
    next(client)
    with pytest.raises(SaslRejected):
        client.send(acceptor.new_context().step(next(other)))


@pytest.mark.parametrize("choice", [b"", b"\1\0\0", b"\2\0\0\0", b"\4\0\0\0", b"\0\0\0\0"])
def test_only_no_layer_may_be_chosen(acceptor: "contexts.Acceptor", login: Login, choice: bytes) -> None:
    ticket = login("localhost")
    server = converse(acceptor.new_context, str)
    next(server)
    assert ticket.context.step(server.send(ticket.token)) == b""
    assert ticket.context.unwrap(server.send(b"")) == OFFER
    with pytest.raises(InvalidCredentials, match="layer"):
        server.send(ticket.context.wrap(choice))


def test_the_authorization_id_has_no_effect(acceptor: "contexts.Acceptor", login: Login) -> None:
    ticket = login("localhost")
    server = converse(acceptor.new_context, str)
    next(server)
    ticket.context.step(server.send(ticket.token))
    server.send(b"")
    with pytest.raises(StopIteration) as done:
        server.send(ticket.context.wrap(OFFER + b"admin"))
    assert done.value.value == Authenticated(f"ann@{REALM}")


def test_messages_are_verified(acceptor: "contexts.Acceptor", login: Login) -> None:
    for last in (b"", OFFER, b"\0" * 100_000):
        ticket = login("localhost")
        server = converse(acceptor.new_context, str)
        next(server)
        ticket.context.step(server.send(ticket.token))
        server.send(b"")
        with pytest.raises(InvalidCredentials):
            server.send(last)
    server = converse(acceptor.new_context, str)
    next(server)
    server.send(login("localhost").token)
    with pytest.raises(InvalidCredentials, match="is not empty"):
        server.send(b"what for")
