"""PKCS12 stores made by Java, keytool and OpenSSL: the keys and certificates that Java finds."""

import hashlib
import os
import random
import shlex
import shutil
import ssl
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kafka_node import run_java
from long_run import repetitions
from penstock.security.tls.errors import InvalidStore
from penstock.security.tls.identities import Identity
from penstock.security.tls.pkcs12 import Pkcs12Error, read_pkcs12
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stores import Stores, key_store, trust_store

STORE = "of-the-store"
DAMAGES = repetitions("PENSTOCK_DAMAGES", gate=100, long=5_000)
KEY_STORE, TRUST_STORE = "'ssl.keystore.location': PATH", "'ssl.truststore.location': PATH"
WRONG_PASSWORD = (
    "Invalid password or PKCS12 data. A file that 'keytool -importkeystore' of Java 17 writes can be read, "
    "if its keys have the file's password"
)


@dataclass(frozen=True)
class JavaStores:
    """The directory of the stores, and by file what Java finds: alias, kind and hashes of certificates."""

    directory: Path
    found: dict[str, dict[str, tuple[str, ...]]]


@pytest.fixture(scope="module")
def leaves() -> dict[str, trustme.LeafCert]:
    authority = trustme.CA().create_child_ca()
    return {
        "EC": authority.issue_cert("localhost", key_type=trustme.KeyType.ECDSA),
        "RSA": authority.issue_cert("localhost", key_type=trustme.KeyType.RSA),
    }


@pytest.fixture(scope="module")
def java(
    kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory, leaves: dict[str, trustme.LeafCert]
) -> JavaStores:
    directory = tmp_path_factory.mktemp("java's stores")
    for name, leaf in leaves.items():
        (directory / f"{name}.key").write_bytes(pkcs8(leaf.private_key_pem.bytes()))
        (directory / f"{name}.pem").write_text(chain_of(leaf))
    trustme.CA().cert_pem.write_to_path(str(directory / "authority.pem"))
    told = run_java(kafka_libs, str(Path(__file__).with_name("JavaStores.java")), str(directory))
    found: dict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for line in told.splitlines():
        file, alias, *rest = line.split("\t")
        found[file][alias] = tuple(rest)
    return JavaStores(directory, found)


def pkcs8(pem: bytes) -> bytes:
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def chain_of(leaf: trustme.LeafCert) -> str:
    return "".join(each.bytes().decode() for each in leaf.cert_chain_pems)


def hashes(*certificates: bytes) -> tuple[str, ...]:
    return tuple(hashlib.sha256(each).hexdigest() for each in certificates)


@pytest.mark.kafka
@pytest.mark.parametrize("file", ["keys.p12", "legacy.p12"])
def test_the_first_of_javas_keys_has_the_chain_that_java_finds(java: JavaStores, file: str) -> None:
    path = java.directory / file
    held = read_pkcs12(path.read_bytes(), STORE)
    assert held.key is not None
    assert ("key", *hashes(*held.chain)) in java.found[file].values()
    assert len(held.chain) == 2
    keys = [(java.directory / f"{algorithm}.key").read_bytes() for algorithm in ("EC", "RSA")]
    assert pkcs8(held.key.encode()) in keys
    every = {each for _, *certificates in java.found[file].values() for each in certificates}
    assert {*hashes(*held.chain), *hashes(*held.others)} == every
    settings = TlsSettings(keystore_location=str(path), keystore_password=STORE, key_password=STORE)
    assert key_store(settings) == Identity(held.key, held.chain)


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("file", "password"),
    [("trust.p12", STORE), ("legacy-trust.p12", STORE), ("open.p12", STORE), ("open.p12", None)],
)
def test_what_java_trusts_is_trusted(java: JavaStores, file: str, password: str | None) -> None:
    path = str(java.directory / file)
    trusted = trust_store(TlsSettings(truststore_location=path, truststore_password=password))
    assert trusted is not None
    assert [("trusted", *hashes(*trusted.certificates))] == list(java.found[file].values())


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("file", "passwords", "told"),
    [
        (
            "keys.p12",
            {"keystore_password": "hidden"},
            f"{KEY_STORE} can't be read as PKCS12 with 'ssl.keystore.password': {WRONG_PASSWORD}",
        ),
        (
            "two-passwords.p12",
            {"keystore_password": STORE},
            f"{KEY_STORE} can't be read as PKCS12 with 'ssl.keystore.password': {WRONG_PASSWORD}",
        ),
        (
            "two-passwords.p12",
            {"keystore_password": STORE, "key_password": "hidden"},
            "'ssl.key.password' is not 'ssl.keystore.password': expected the same, or none, since PATH "
            "is PKCS12, in which keys have the file's password",
        ),
        ("trust.p12", {"keystore_password": STORE}, f"{KEY_STORE} has no private key"),
        (
            "trust.p12",
            {"truststore_password": "hidden"},
            f"{TRUST_STORE} can't be read as PKCS12 with 'ssl.truststore.password': {WRONG_PASSWORD}",
        ),
        (
            "trust.p12",
            {},
            f"{TRUST_STORE} can't be read as PKCS12 without 'ssl.truststore.password': {WRONG_PASSWORD}",
        ),
        (
            "keys.p12",
            {"truststore_password": STORE},
            f"{TRUST_STORE} has a private key: expected only trusted certificates, since those in the key's "
            "chain can't be told from them",
        ),
    ],
)
def test_what_is_wrong_with_a_store(
    java: JavaStores, file: str, passwords: dict[str, str], told: str
) -> None:
    path = str(java.directory / file)
    location = "keystore_location" if "keystore_password" in passwords else "truststore_location"
    settings = TlsSettings(**passwords | {location: path})
    with pytest.raises(InvalidStore) as caught:
        Stores.read(settings)
    assert str(caught.value) == told.replace("PATH", repr(path))


@pytest.mark.kafka
@pytest.mark.parametrize(("file", "format_name"), [("old.jks", "JKS"), ("old.jceks", "JCEKS")])
def test_former_formats_are_refused_with_the_way_out(java: JavaStores, file: str, format_name: str) -> None:
    path = str(java.directory / file)
    paths = f"-srckeystore {shlex.quote(path)} -destkeystore {shlex.quote(path + '.p12')}"
    command = f"keytool -importkeystore {paths} -deststoretype pkcs12"
    for settings, config in (
        (TlsSettings(keystore_location=path, keystore_password=STORE), "ssl.keystore.location"),
        (TlsSettings(truststore_location=path, truststore_password=STORE), "ssl.truststore.location"),
    ):
        with pytest.raises(InvalidStore) as caught:
            (key_store if settings.has_key_store else trust_store)(settings)
        assert str(caught.value) == (
            f"'{config}': {path!r} is a {format_name} store: expected PKCS12. Convert it with '{command}'"
        )


@pytest.mark.kafka
def test_the_way_out_leads_to_a_store_that_is_read(java: JavaStores) -> None:
    path = java.directory / "old.jks"
    keytool(
        *(
            "-importkeystore",
            "-srckeystore",
            path,
            "-destkeystore",
            f"{path}.p12",
            "-deststoretype",
            "pkcs12",
        ),
        *("-srcstorepass", STORE, "-deststorepass", STORE),
    )
    settings = TlsSettings(keystore_location=f"{path}.p12", keystore_password=STORE)
    assert key_store(settings) is not None


@pytest.mark.kafka
def test_keytools_stores_of_the_default_type(java: JavaStores, tmp_path: Path) -> None:
    """`keytool` of Java 17 writes PKCS12 whatever the file is called, and Kafka's default type is JKS."""
    keys, trust = tmp_path / "server.keystore.jks", tmp_path / "server.truststore.jks"
    keytool(
        *(
            "-genkeypair",
            "-keyalg",
            "EC",
            "-alias",
            "b",
            "-dname",
            "CN=Ann",
            "-keystore",
            keys,
            "-storepass",
            STORE,
        )
    )
    authority = java.directory / "authority.pem"
    keytool(
        *(
            "-importcert",
            "-noprompt",
            "-alias",
            "a",
            "-file",
            authority,
            "-keystore",
            trust,
            "-storepass",
            STORE,
        )
    )
    settings = TlsSettings(
        keystore_location=str(keys),
        keystore_password=STORE,
        truststore_location=str(trust),
        truststore_password=STORE,
    )
    found, trusted = key_store(settings), trust_store(settings)
    assert found is not None
    assert trusted is not None
    assert len(found.chain) == 1
    assert len(trusted.certificates) == 1


def keytool(*words: object) -> None:
    done = subprocess.run(
        ["keytool", "-J-Xmx128m", *map(str, words)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def openssl_store(tmp_path: Path, leaves: dict[str, trustme.LeafCert]) -> Path:
    """A PEM file with a key and its chain."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    path = tmp_path / "store.pem"
    leaves["RSA"].private_key_and_cert_chain_pem.write_to_path(str(path))
    return path


def openssl(source: Path, *words: str) -> Path:
    made = source.with_suffix(".p12")
    done = subprocess.run(
        ["openssl", "pkcs12", "-export", "-in", source, "-out", made, "-passout", f"pass:{STORE}", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize(
    "words",
    [
        ("-name", "Zoë"),
        ("-legacy",),  # what OpenSSL before 3.0 wrote
        ("-legacy", "-certpbe", "PBE-SHA1-RC2-128"),
        ("-keypbe", "aes-128-cbc", "-certpbe", "aes-192-cbc", "-macalg", "sha512"),
        ("-keypbe", "NONE", "-certpbe", "NONE", "-nomac"),
        ("-keypbe", "des-ede3-cbc", "-certpbe", "des-ede3-cbc", "-macalg", "sha1"),
    ],
)
def test_openssls_stores(
    openssl_store: Path, leaves: dict[str, trustme.LeafCert], words: tuple[str, ...]
) -> None:
    made = openssl(openssl_store, *words)
    found = key_store(TlsSettings(keystore_location=str(made), keystore_password=STORE))
    assert found is not None
    assert "".join(map(ssl.DER_cert_to_PEM_cert, found.chain)) == chain_of(leaves["RSA"])
    assert pkcs8(found.key.encode()) == pkcs8(leaves["RSA"].private_key_pem.bytes())


def test_a_store_of_certificates_has_no_key(openssl_store: Path, leaves: dict[str, trustme.LeafCert]) -> None:
    made = openssl(openssl_store, "-nokeys")
    settings = TlsSettings(keystore_location=str(made), keystore_password=STORE)
    with pytest.raises(InvalidStore, match="has no private key"):
        key_store(settings)
    trusted = trust_store(TlsSettings(truststore_location=str(made), truststore_password=STORE))
    assert trusted is not None
    assert "".join(map(ssl.DER_cert_to_PEM_cert, trusted.certificates)) == chain_of(leaves["RSA"])


def test_a_key_without_its_certificate_is_refused(openssl_store: Path) -> None:
    made = openssl(openssl_store, "-nocerts")
    settings = TlsSettings(keystore_location=str(made), keystore_password=STORE)
    with pytest.raises(InvalidStore, match="has no certificate that belongs to its key"):
        key_store(settings)


@pytest.mark.longer
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
def test_damaged_stores_are_refused(openssl_store: Path) -> None:
    """A damage leads to the error, or changes nothing that the password protects."""
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    rng = random.Random(seed)
    plain = ("-keypbe", "NONE", "-certpbe", "NONE")
    for words in ((*plain, "-macalg", "sha1"), (*plain, "-nomac")):
        data = openssl(openssl_store, *words).read_bytes()
        undamaged = read_pkcs12(data, STORE)
        refused = 0
        for _ in range(DAMAGES):
            damaged, at = bytearray(data), rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    del damaged[at:]
                case 1:
                    damaged[at] ^= rng.randrange(1, 256)
                case _:
                    damaged[at:at] = rng.randbytes(1)
            try:
                found = read_pkcs12(bytes(damaged), STORE)
                assert found == undamaged or "-nomac" in words
            except Pkcs12Error:
                refused += 1
        assert refused
