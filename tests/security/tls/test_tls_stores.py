"""Settings of TLS under Kafka's names, and stores in PEM form, in files and in configs (KIP-651)."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import trustme

from certificates import KEY_PASSWORD, Authority
from penstock.metadata.configs.tables import security as table
from penstock.security.tls.errors import InvalidStore, InvalidTls
from penstock.security.tls.identities import Identity
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stores import Stores, TrustStore, key_store, trust_store


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pem") / "authority")


def settings(**properties: object) -> TlsSettings:
    """Settings of PEM stores, from configs as a broker has them."""
    given = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    given |= {f"ssl.{name.replace('_', '.')}": str(value) for name, value in properties.items()}
    return TlsSettings.from_configs(given.get)


def identity_of(**properties: object) -> Identity:
    found = key_store(settings(**properties))
    assert found is not None
    return found


def trusted_of(**properties: object) -> TrustStore:
    found = trust_store(settings(**properties))
    assert found is not None
    return found


def test_without_configs_there_are_kafkas_defaults_and_no_stores() -> None:
    found = TlsSettings.from_configs(lambda name: None)
    assert found == TlsSettings()
    assert (found.keystore_type, found.protocols, found.client_auth) == (
        "JKS",
        ("TLSv1.2", "TLSv1.3"),
        "none",
    )
    assert Stores.read(found) == Stores(found, None, None)


def test_every_config_is_read() -> None:
    asked: list[str] = []
    given = {
        "ssl.protocol": "TLSv1.2",
        "ssl.enabled.protocols": [],
        "ssl.cipher.suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        "ssl.client.auth": "Required",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.keystore.type": "pkcs12",
        "ssl.keystore.location": "/keys",
        "ssl.keystore.password": "k",
        "ssl.allow.dn.changes": True,
    }

    def get(name: str) -> object:
        asked.append(name)
        return given.get(name)

    found = TlsSettings.from_configs(get)
    assert found == TlsSettings(
        protocol="TLSv1.2",
        enabled_protocols=(),
        cipher_suites=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",),
        client_auth="required",
        endpoint_identification_algorithm="",
        keystore_type="PKCS12",
        keystore_location="/keys",
        keystore_password="k",
        allow_dn_changes=True,
    )
    assert found.protocols == ("TLSv1.2",)
    assert all(f"\n{name}:" in table.TABLE for name in asked)


def test_settings_are_hashable_and_hide_secrets() -> None:
    found = TlsSettings(
        keystore_type="PEM", keystore_key="hidden", keystore_certificate_chain="c", key_password="hidden"
    )
    assert hash(found) == hash(found)
    assert "hidden" not in repr(found)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"keystore_key": "hidden"}, "must be set together: found one"),
        ({"keystore_certificate_chain": "c"}, "must be set together: found one"),
        (
            {"keystore_key": "hidden", "keystore_certificate_chain": "c", "keystore_type": "JKS"},
            "'ssl.keystore.certificate.chain' is set: expected 'ssl.keystore.type' PEM, found JKS",
        ),
        (
            {"keystore_key": "hidden", "keystore_certificate_chain": "c", "keystore_location": "/a"},
            "'ssl.keystore.location' and 'ssl.keystore.certificate.chain' exclude each other",
        ),
        (
            {"keystore_key": "hidden", "keystore_certificate_chain": "c", "keystore_password": "hidden"},
            "'ssl.keystore.password' is set for a PEM store: expected 'ssl.key.password'",
        ),
        ({"keystore_location": "/a", "keystore_password": "hidden"}, "is set for a PEM store"),
        ({"keystore_password": "hidden"}, "expected 'ssl.keystore.location' as well"),
        ({"keystore_type": "JKS", "keystore_location": "/a"}, "expected 'ssl.keystore.password' as well"),
        (
            {"truststore_certificates": "c", "truststore_type": "PKCS12"},
            "'ssl.truststore.certificates' is set: expected 'ssl.truststore.type' PEM, found PKCS12",
        ),
        (
            {"truststore_certificates": "c", "truststore_location": "/a"},
            "'ssl.truststore.location' and 'ssl.truststore.certificates' exclude each other",
        ),
        (
            {"truststore_certificates": "c", "truststore_password": "hidden"},
            "'ssl.truststore.password' is set for a PEM store",
        ),
        ({"truststore_location": "/a", "truststore_password": "hidden"}, "is set for a PEM store"),
        ({"truststore_password": "hidden"}, "expected 'ssl.truststore.location' as well"),
    ],
)
def test_combinations_that_kafka_refuses(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidStore) as caught:
        settings(**given)
    assert told in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"client_auth": "maybe"},
            "'ssl.client.auth' has 'maybe': expected one of none, requested, required",
        ),
        ({"protocol": "SSLv3"}, "'ssl.protocol' has 'SSLv3': expected one of TLS, TLSv1.2, TLSv1.3"),
        ({"keystore_type": "BCFKS"}, "'ssl.keystore.type' has 'BCFKS': expected one of PEM, PKCS12, JKS"),
        ({"endpoint_identification_algorithm": "ldaps"}, "is 'ldaps': expected https, or an empty text"),
    ],
)
def test_values_that_cannot_be(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidTls, match=told):
        settings(**given)


def test_versions_that_are_broken_cannot_be_enabled() -> None:
    with pytest.raises(InvalidTls, match=r"'ssl.enabled.protocols' has 'TLSv1.1': expected one of TLSv1.2"):
        TlsSettings(enabled_protocols=("TLSv1.1", "TLSv1.2"))


def test_the_same_keys_in_a_file_and_in_configs(authority: Authority) -> None:
    own = authority.server
    in_file = identity_of(keystore_location=own.store)
    in_configs = identity_of(
        keystore_key=own.key.read_text(), keystore_certificate_chain=own.chain.read_text()
    )
    assert in_file == in_configs
    encrypted = identity_of(keystore_location=own.locked, key_password=KEY_PASSWORD)
    assert encrypted.chain == in_file.chain
    assert KEY_PASSWORD not in repr(encrypted)


def test_pem_in_one_line(authority: Authority) -> None:
    """In a file of properties or a manifest, the line breaks of PEM may have become spaces."""
    own = authority.server
    folded = identity_of(
        keystore_key=" ".join(own.key.read_text().split("\n")),
        keystore_certificate_chain="Bag Attributes " + " ".join(own.chain.read_text().split("\n")),
    )
    assert folded == identity_of(keystore_location=own.store)
    certificate = authority.certificate
    in_line = trusted_of(truststore_certificates=" ".join(certificate.read_text().split("\n")))
    assert in_line == trusted_of(truststore_location=certificate)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("genrsa", ("-traditional",)),
        ("genrsa", ("-traditional", "-aes128", "-passout", f"pass:{KEY_PASSWORD}")),
        ("ecparam", ("-name", "prime256v1", "-genkey")),
        ("genpkey", ("-algorithm", "ed25519")),
        ("genpkey", ("-algorithm", "RSA", "-pass", f"pass:{KEY_PASSWORD}", "-aes-256-cbc")),
    ],
)
def test_keys_in_every_form_that_openssl_writes(
    tmp_path: Path, command: str, options: tuple[str, ...]
) -> None:
    key, chain, store = tmp_path / "key", tmp_path / "chain", tmp_path / "store"
    openssl(command, "-out", key, *options)
    password = ("-passin", f"pass:{KEY_PASSWORD}")
    openssl("req", "-x509", "-key", key, "-out", chain, "-subj", "/CN=a", *password)
    store.write_text(chain.read_text() + key.read_text())
    found = identity_of(keystore_location=store, key_password=KEY_PASSWORD)
    assert len(found.chain) == 1


def openssl(*words: object) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_stores_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    own, other = authority.server, authority.client
    chain, key = own.chain.read_text(), own.key.read_text()
    mixed = {"keystore_key": other.key.read_text(), "keystore_certificate_chain": chain}
    cases: list[tuple[dict[str, object], str]] = [
        (
            {"keystore_location": tmp_path / "none"},
            "'ssl.keystore.location': '{path}' can't be read: No such",
        ),
        ({"keystore_location": tmp_path}, "'{path}' can't be read: Is a directory"),
        ({"keystore_location": own.locked}, "'{path}' has an encrypted key: 'ssl.key.password' is missing"),
        (
            {"keystore_location": own.locked, "key_password": "hidden"},
            "'{path}': the key can't be used with its certificate, or 'ssl.key.password' is wrong",
        ),
        ({"keystore_location": own.chain}, "'{path}' has 0 private keys: expected one"),
        ({"keystore_location": own.key}, "'{path}' has no certificate: expected the key's own"),
        (mixed, "'ssl.keystore.key': the key can't be used with its certificate: key values mismatch"),
        (
            {"keystore_key": key * 2, "keystore_certificate_chain": chain},
            "'ssl.keystore.key' has 2 private keys",
        ),
        (
            {"keystore_key": key.replace("\nMI", "\n?I"), "keystore_certificate_chain": chain},
            "'ssl.keystore.key' is damaged: the section PRIVATE KEY is not base64",
        ),
        (
            {"keystore_key": key.replace("\nMI", "\né"), "keystore_certificate_chain": chain},
            "'ssl.keystore.key' is damaged: the section PRIVATE KEY is not base64",
        ),
        (
            {"keystore_key": key, "keystore_certificate_chain": chain.replace("\nMII", "\nMIA")},
            "'ssl.keystore.certificate.chain' is damaged",
        ),
        ({"truststore_location": own.key}, "'ssl.truststore.location': '{path}' has no certificate"),
        ({"truststore_certificates": "none"}, "'ssl.truststore.certificates' has no certificate"),
    ]
    for given, told in cases:
        with pytest.raises(InvalidStore) as caught:
            Stores.read(settings(**given))
        path = next(iter(given.values()))
        assert told.format(path=path) in str(caught.value)
        assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("contents", "kind", "told"),
    [
        (
            b"\xfe\xed\xfe\xed\0\0",
            "PEM",
            "is a JKS store: expected PEM. Convert it with 'keytool -importkeystore",
        ),
        (b"\xce\xce\xce\xce\0\0", "PKCS12", "is a JCEKS store: expected PKCS12"),
        (b"text", "JKS", "is neither PEM nor PKCS12: expected PKCS12"),
        (b"", "PEM", "is neither PEM nor PKCS12: expected PEM"),
        (b"\x30\x03\x02\x01\x03", "PEM", "expected 'ssl.truststore.type' PKCS12, found PEM"),
        (b"\x30\x03\x02\x01\x03", "JKS", "can't be read as PKCS12"),
        (b"-----BEGIN CERTIFICATE-----", "JKS", "is PEM: expected 'ssl.truststore.type' PEM, found JKS"),
    ],
)
def test_a_file_of_another_format_is_told_by_its_bytes(
    tmp_path: Path, contents: bytes, kind: str, told: str
) -> None:
    path = tmp_path / "trust"
    path.write_bytes(contents)
    with pytest.raises(InvalidStore) as caught:
        trust_store(settings(truststore_location=path, truststore_type=kind))
    assert f"'ssl.truststore.location': '{path}'" in str(caught.value)
    assert told in str(caught.value)


def test_a_type_that_is_not_set_is_found(authority: Authority, tmp_path: Path) -> None:
    """Clients may leave the type out, and then PEM has no password and PKCS12 has one."""
    made = tmp_path / "store.p12"
    source = ("-in", str(authority.server.store), "-out", str(made))
    openssl("pkcs12", "-export", *source, "-passout", "pass:of-the-store")
    assert (
        key_store(TlsSettings(keystore_type=None, keystore_location=str(authority.server.store))) is not None
    )
    given = {"keystore_type": None, "keystore_password": "of-the-store"}
    assert key_store(TlsSettings(keystore_location=str(made), **given)) is not None
    with pytest.raises(InvalidStore, match="is set for a PEM store"):
        key_store(TlsSettings(keystore_location=str(authority.server.store), **given))
    with pytest.raises(InvalidStore, match=r"a PKCS12 store: expected 'ssl\.keystore\.password' as well"):
        key_store(TlsSettings(keystore_type=None, keystore_location=str(made)))


def test_pem_stores_and_their_principals_do_not_import_cryptography(authority: Authority) -> None:
    """The import takes longer than the rest of a command's start."""
    script = f"""
import sys
from penstock.security.tls.principals import SslPrincipals
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stores import Stores

pem = {{"keystore_type": "PEM", "truststore_type": "PEM"}}
store, certificate = {str(authority.server.store)!r}, {str(authority.certificate)!r}
read = Stores.read(TlsSettings(keystore_location=store, truststore_location=certificate, **pem))
print(SslPrincipals().principal_of(read.identity.chain[0]))
sys.exit("cryptography" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("User:")


def test_no_key_reaches_a_disk(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a temporary file")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    open_files = len(os.listdir("/proc/self/fd"))
    assert identity_of(keystore_location=authority.server.store)
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_without_files_in_memory_a_private_one_is_removed(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[tuple[int, str]] = []
    make = tempfile.mkstemp

    def note(**given: str) -> tuple[int, str]:
        made.append(make(dir=tmp_path, **given))
        assert os.stat(made[-1][1]).st_mode & 0o777 == 0o600
        return made[-1]

    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "mkstemp", note)
    assert identity_of(keystore_location=authority.server.store)
    assert len(made) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_authority_of_one_name_is_trusted_once() -> None:
    pem = trustme.CA().cert_pem.bytes().decode()
    assert len(trusted_of(truststore_certificates=pem + pem).certificates) == 1
