"""Random changes of certificates: accepted and refused as by Apache Kafka's SslFactory."""

import datetime
import ipaddress
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kafka_node import run_java
from long_run import repetitions
from penstock.security.tls.errors import InvalidStore
from penstock.security.tls.replacement import check_replacement
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stores import Stores

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

CASES = repetitions("PENSTOCK_REPLACEMENTS", gate=400, long=20_000)
CERTIFICATES = 60
COMMON_NAMES = ("broker", "Broker", " broker", "bro ker", "bro  ker", "other")
DOMAINS = (None, None, "example", "EXAMPLE", "elsewhere")
ALTERNATIVE_NAMES = (
    x509.DNSName("a.example"),
    x509.DNSName("A.example"),
    x509.DNSName("b.example"),
    x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("2001:db8::1")),
    x509.UniformResourceIdentifier("spiffe://kafka/broker"),
    x509.RFC822Name("kafka@example.com"),
    x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])),
)


def write_store(rng: random.Random, path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, rng.choice(COMMON_NAMES))]
    domain = rng.choice(DOMAINS)
    if domain is not None:
        attributes.append(x509.NameAttribute(NameOID.DOMAIN_COMPONENT, domain))
    subject = x509.Name(attributes)
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        issuer_name=subject,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=now - datetime.timedelta(days=1),
        not_valid_after=now + datetime.timedelta(days=1),
    )
    if names := rng.sample(ALTERNATIVE_NAMES, k=rng.randint(0, 3)):
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(encoded + certificate.public_bytes(Encoding.PEM))


def answer(old: Stores, new: Stores) -> str:
    try:
        check_replacement(old, new)
    except InvalidStore as error:
        return "alternative names" if "alternative names" in str(error) else "name"
    return "accepted"


def test_kafka_decides_the_same(kafka_libs: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    rng = random.Random(seed)
    paths = [tmp_path / str(number) for number in range(CERTIFICATES)]
    for path in paths:
        write_store(rng, path)
    read = {
        path: Stores.read(TlsSettings(keystore_type="PEM", keystore_location=str(path))) for path in paths
    }
    lines, ours = [], []
    for _ in range(CASES):
        old, new = rng.sample(paths, k=2)
        allowed = rng.random() < 0.3, rng.random() < 0.3
        lines.append("\t".join(map(str, (old, new, *allowed))))
        settings = replace(read[new].settings, allow_dn_changes=allowed[0], allow_san_changes=allowed[1])
        ours.append(answer(read[old], replace(read[new], settings=settings)))
    file = tmp_path / "cases"
    file.write_text("\n".join(lines))
    source = str(Path(__file__).with_name("KafkaReplacements.java"))
    theirs = run_java(kafka_libs, source, str(file), timeout_s=500).splitlines()
    for line, their, our in zip(lines, theirs, ours, strict=True):
        assert our == their, line
    assert len(Counter(ours)) == 3
