"""Contexts of listeners and clients: whom they trust, and which versions and suites they negotiate."""

import shutil
import ssl
import subprocess
from dataclasses import replace

import pytest
import trustme
from tls_handshakes import handshake

from penstock.security.tls.ciphers import TLS13_SUITES, openssl_name
from penstock.security.tls.contexts import client_context, server_context
from penstock.security.tls.errors import InvalidStore, InvalidTls
from penstock.security.tls.settings import TlsSettings

GCM = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def settings(
    leaf: trustme.LeafCert | None = None, trusted: trustme.CA | None = None, **others: object
) -> TlsSettings:
    given: dict[str, object] = {"keystore_type": "PEM", "truststore_type": "PEM"}
    if leaf is not None:
        given["keystore_key"] = leaf.private_key_pem.bytes().decode()
        given["keystore_certificate_chain"] = "".join(each.bytes().decode() for each in leaf.cert_chain_pems)
    if trusted is not None:
        given["truststore_certificates"] = trusted.cert_pem.bytes().decode()
    return TlsSettings(**(given | others))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server(authority: trustme.CA) -> TlsSettings:
    return settings(authority.issue_cert("localhost"), authority)


@pytest.fixture(scope="module")
def client(authority: trustme.CA) -> TlsSettings:
    return settings(None, authority)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("client_auth", "shown", "expected"),
    [
        ("none", "nothing", "anonymous"),
        ("none", "trusted", "anonymous"),
        ("none", "another's", "anonymous"),
        ("requested", "nothing", "anonymous"),
        ("requested", "trusted", "known"),
        ("requested", "another's", "refused"),
        ("required", "nothing", "refused"),
        ("required", "trusted", "known"),
        ("required", "another's", "refused"),
    ],
)
def test_who_is_let_in(
    server: TlsSettings, authority: trustme.CA, version: str, client_auth: str, shown: str, expected: str
) -> None:
    issuer = {"nothing": None, "trusted": authority, "another's": trustme.CA()}[shown]
    own = settings(issuer and issuer.issue_cert("ann"), authority, enabled_protocols=(version,))
    listener = server_context(replace(server, client_auth=client_auth))
    if expected == "refused":
        with pytest.raises(ssl.SSLError):
            handshake(listener, client_context(own), "localhost")
        return
    side, _ = handshake(listener, client_context(own), "localhost")
    assert side.version() == version
    assert (side.getpeercert(binary_form=True) is not None) is (expected == "known")


def test_a_server_by_another_name_is_refused_unless_names_are_not_checked(
    server: TlsSettings, client: TlsSettings
) -> None:
    listener = server_context(server)
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere'"):
        handshake(listener, client_context(client), "elsewhere")
    unchecked = replace(client, endpoint_identification_algorithm="")
    assert handshake(listener, client_context(unchecked), "elsewhere")


def test_a_client_without_a_trust_store_trusts_the_systems_authorities(server: TlsSettings) -> None:
    context = client_context(TlsSettings())
    assert context.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server_context(server), context, "localhost")


def test_each_certificate_of_a_trust_store_is_trusted_by_itself(client: TlsSettings) -> None:
    """Java trusts an intermediate authority or a server's certificate without the root that has signed it."""
    intermediate = trustme.CA().create_child_ca()
    leaf = intermediate.issue_cert("localhost")
    listener = server_context(settings(leaf))
    for trusted in (intermediate.cert_pem, leaf.cert_chain_pems[0]):
        own = replace(client, truststore_certificates=trusted.bytes().decode())
        assert handshake(listener, client_context(own), "localhost")


def test_a_listener_needs_a_key_and_whom_to_trust(server: TlsSettings) -> None:
    with pytest.raises(InvalidStore, match=r"has no key: expected 'ssl\.keystore\.location'"):
        server_context(TlsSettings())
    lonely = replace(server, truststore_certificates=None, client_auth="requested")
    with pytest.raises(InvalidStore, match=r"'ssl\.client\.auth' is requested: expected 'ssl\.truststore"):
        server_context(lonely)


def test_a_listener_does_not_compress_or_renegotiate(server: TlsSettings) -> None:
    options = server_context(server).options
    assert options & ssl.OP_NO_COMPRESSION
    assert options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_sessions_end_with_the_context(server: TlsSettings, client: TlsSettings, version: str) -> None:
    """What was trusted before must not be trusted longer because a client has a ticket."""
    own = client_context(replace(client, enabled_protocols=(version,)))
    listener = server_context(server)
    server_side, client_side = handshake(listener, own, "localhost")
    server_side.write(b"x")  # after the handshake, a server of TLS 1.3 would send tickets
    assert client_side.read(1) == b"x"
    session = client_side.session
    assert session is not None
    _, again = handshake(listener, own, "localhost", session)
    assert again.session_reused is (version == "TLSv1.2")
    _, elsewhere = handshake(server_context(server), own, "localhost", session)
    assert elsewhere.session_reused is False


@pytest.mark.parametrize(
    ("chosen", "version"),
    [
        ({}, "TLSv1.3"),
        ({"enabled_protocols": ("TLSv1.2",)}, "TLSv1.2"),
        ({"enabled_protocols": (), "protocol": "TLSv1.2"}, "TLSv1.2"),
        ({"enabled_protocols": (), "protocol": "TLS"}, "TLSv1.3"),
        ({"cipher_suites": (GCM,)}, "TLSv1.2"),  # as in Java: no suite of TLS 1.3 is left
        ({"cipher_suites": TLS13_SUITES}, "TLSv1.3"),
        ({"cipher_suites": (*TLS13_SUITES, GCM)}, "TLSv1.3"),
        ({"cipher_suites": (TLS13_SUITES[0], GCM), "enabled_protocols": ("TLSv1.2",)}, "TLSv1.2"),
    ],
)
def test_versions_follow_protocols_and_suites(
    server: TlsSettings, client: TlsSettings, chosen: dict[str, tuple[str, ...]], version: str
) -> None:
    for listener, own in (
        (replace(server, **chosen), client),
        (server, replace(client, **chosen)),
    ):
        side, _ = handshake(server_context(listener), client_context(own), "localhost")
        assert side.version() == version
        suite = side.cipher()
        assert suite is not None
        if chosen.get("cipher_suites") and version == "TLSv1.2":
            assert suite[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"


def test_a_listener_without_old_suites_refuses_old_clients(server: TlsSettings, client: TlsSettings) -> None:
    listener = server_context(replace(server, cipher_suites=TLS13_SUITES))
    with pytest.raises(ssl.SSLError):
        handshake(listener, client_context(replace(client, enabled_protocols=("TLSv1.2",))), "localhost")


@pytest.mark.parametrize(
    ("suites", "protocols", "told"),
    [
        (TLS13_SUITES[:2], ("TLSv1.3",), "expected all of .* cannot choose among the suites of TLS 1.3"),
        ((GCM,), ("TLSv1.3",), "no suite for any version in 'ssl.enabled.protocols'"),
        (("TLS_RSA_WITH_NULL_SHA256",), ("TLSv1.2",), "'TLS_RSA_WITH_NULL_SHA256', which is not supported"),
        (("TLS_DH_anon_WITH_AES_128_CBC_SHA",), ("TLSv1.2",), "which is not supported"),
        (("ECDHE-RSA-AES128-SHA",), ("TLSv1.2",), "expected names such as TLS_ECDHE_RSA_WITH"),
        (("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA1",), ("TLSv1.2",), "which OpenSSL .* does not have"),
    ],
)
def test_suites_that_cannot_be_chosen(
    client: TlsSettings, suites: tuple[str, ...], protocols: tuple[str, ...], told: str
) -> None:
    with pytest.raises(InvalidTls, match=told):
        client_context(replace(client, cipher_suites=suites, enabled_protocols=protocols))


def test_suites_have_the_names_of_openssl() -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    command = ["openssl", "ciphers", "-stdname", "-s", "-tls1_2", "ECDHE:DHE:kRSA:!aNULL:!eNULL:!PSK:!aDSS"]
    known = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    names = {line.split()[0]: line.split()[2] for line in known}
    translated = {}
    for suite in names:
        try:
            translated[suite] = openssl_name(suite)
        except InvalidTls:
            assert any(word in suite for word in ("CAMELLIA", "ARIA", "3DES", "SEED", "IDEA")), suite
    assert translated.items() <= names.items()
    assert len(translated) > 25
