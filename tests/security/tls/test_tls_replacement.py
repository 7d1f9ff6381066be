"""Changes of a running listener's stores, by the rules of Kafka's SslFactory."""

import datetime
from dataclasses import replace

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from penstock.security.tls.errors import InvalidStore
from penstock.security.tls.replacement import check_handshakes, check_replacement
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stores import Stores

NOTHING = Stores(TlsSettings(), None, None)


def stores(name: str, *hosts: str, **others: bool) -> Stores:
    """The stores of a listener whose certificate has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "example"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return Stores.read(
        TlsSettings(
            keystore_type="PEM",
            keystore_key=encoded,
            keystore_certificate_chain=certificate,
            truststore_type="PEM",
            truststore_certificates=certificate,
            **others,
        )
    )


def test_a_renewed_certificate_of_the_same_names_is_accepted() -> None:
    old = stores("broker", "a.example", "b.example")
    check_replacement(old, stores("broker", "b.example", "a.example"))
    check_replacement(old, stores("broker", "a.example", "b.example", "new.example"))
    check_replacement(old, stores(" BROKER ", "a.example", "b.example"))


def test_another_name_must_be_allowed() -> None:
    old = stores("broker", "a.example")
    with pytest.raises(InvalidStore) as caught:
        check_replacement(old, stores("other", "a.example"))
    assert str(caught.value) == (
        "the certificate's distinguished name is CN=broker,DC=example, and the new one's "
        "CN=other,DC=example: expected the same, unless 'ssl.allow.dn.changes' is true"
    )
    check_replacement(old, stores("other", "a.example", allow_dn_changes=True))
    with pytest.raises(InvalidStore, match=r"'ssl\.allow\.dn\.changes' is true"):
        check_replacement(old, stores("other", "a.example", allow_san_changes=True))


def test_a_name_may_change_its_type_of_string() -> None:
    """To Java, such names are not equal, but have the same text, which is sufficient for Kafka."""
    old = stores("broker")
    identity = old.identity
    assert identity is not None
    certificate = identity.chain[0].replace(b"\x16\x07example", b"\x0c\x07EXAMPLE")
    assert certificate != identity.chain[0]
    check_replacement(old, replace(old, identity=replace(identity, chain=(certificate,))))


def test_alternative_names_that_go_must_be_allowed() -> None:
    old = stores("broker", "a.example", "b.example")
    with pytest.raises(InvalidStore) as caught:
        check_replacement(old, stores("broker", "b.example", allow_dn_changes=True))
    assert str(caught.value) == (
        "the new certificate lacks the alternative names a.example: expected all of the old one's, unless "
        "'ssl.allow.san.changes' is true"
    )
    check_replacement(old, stores("broker", allow_san_changes=True))


def test_extensions_that_cannot_be_read_are_refused_unless_they_may_change() -> None:
    old = stores("broker", "a.example")
    identity = old.identity
    assert identity is not None
    certificate = identity.chain[0].replace(b"\x82\x09a.example", b"\x85\x09a.example")  # an ediPartyName
    assert certificate != identity.chain[0]
    new = replace(old, identity=replace(identity, chain=(certificate,)))
    for before, after in ((old, new), (new, old)):
        with pytest.raises(
            InvalidStore, match=r"can't be read: .* unless 'ssl\.allow\.san\.changes' is true"
        ):
            check_replacement(before, after)
    check_replacement(old, replace(new, settings=replace(new.settings, allow_san_changes=True)))


def test_stores_cannot_appear_or_go() -> None:
    old = stores("broker")
    for before, after, told in (
        (NOTHING, replace(old, trusted=None), "cannot add a key store"),
        (replace(old, trusted=None), NOTHING, "cannot remove the key store"),
        (replace(old, trusted=None), old, "cannot add a trust store"),
    ):
        with pytest.raises(InvalidStore, match=told):
            check_replacement(before, after)
    check_replacement(old, replace(old, trusted=None))
    check_replacement(NOTHING, NOTHING)


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_brokers_with_old_and_new_stores_must_trust_each_other(client_auth: str) -> None:
    authority = trustme.CA()

    def broker(issuer: trustme.CA, trusted: trustme.CA) -> Stores:
        leaf = issuer.issue_cert("broker")
        settings = TlsSettings(
            keystore_type="PEM",
            keystore_key=leaf.private_key_pem.bytes().decode(),
            keystore_certificate_chain=leaf.cert_chain_pems[0].bytes().decode(),
            truststore_type="PEM",
            truststore_certificates=trusted.cert_pem.bytes().decode(),
            client_auth=client_auth,
        )
        return Stores.read(settings)

    old, elsewhere = broker(authority, authority), trustme.CA()
    check_handshakes(old, old)
    check_handshakes(old, broker(authority, authority))
    for other in (broker(elsewhere, elsewhere), broker(elsewhere, authority), broker(authority, elsewhere)):
        with pytest.raises(InvalidStore, match=r"each other: .* found: (unable to get|self-signed)"):
            check_handshakes(old, other)
