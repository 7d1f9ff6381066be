"""The secured nodes that librdkafka's tests of security need, and the certificates of their clients.

The suite's own clusters have the same: an authorizer that allows everything for which there is no ACL, users
of SASL, connections that authenticate again every ten seconds, and certificates in all formats that
librdkafka reads, which the tests find by environment variables (trivup's `KafkaBrokerApp` and `SslApp`).

0097 runs as the suite does with `ssl_client_auth=none`. With `required`, a server names its authorities, and
a client with a certificate of another one sends none; the test expects the alert that follows. Python's `ssl`
cannot name them, so that such a client sends its certificate, and gets the alert unknown_ca.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from secured_nodes import AUTHORIZER, Security, settings_of_nodes

from certificates import KEY_PASSWORD, Authority


class Secured(NamedTuple):
    """How the nodes for a test are secured: their listener, and settings beyond it."""

    security: Security = Security("PLAINTEXT")
    config: tuple[tuple[str, str], ...] = ()
    note: str = ""

    def settings_of_nodes(self, authority: Authority) -> dict[str, str]:
        return settings_of_nodes(self.security, authority) | dict(self.config)


OPEN = Secured()
WITH_ACLS = Secured(config=tuple(AUTHORIZER.items()), note=" with ACLs")
SECURED: Mapping[str, Secured] = {
    "0081": Secured(Security("SASL_SSL", "PLAIN")),
    "0097": Secured(Security("SSL"), note=" (`ssl.client.auth=none`)"),
    "0109": WITH_ACLS,
    "0115": WITH_ACLS,
    "0119": WITH_ACLS,
    "0126": Secured(Security("SASL_SSL", "OAUTHBEARER")),
    "0135": Secured(Security("SASL_SSL", "SCRAM-SHA-256")),
    "0142": Secured(Security("SASL_SSL", "SCRAM-SHA-512"), (("connections.max.reauth.ms", "10000"),)),
}
"""The tests that need secured nodes; all others run on PLAINTEXT."""


class Certificates:
    """The certificates of nodes and clients, as files in a directory.

    `environment` has the variables that name a client's certificate in all formats.
    """

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "authority")
        self.environment = self._write(directory)

    def _write(self, directory: Path) -> dict[str, str]:
        client, ca = self.authority.client, self.authority.certificate
        key = load_pem_private_key(client.key.read_bytes(), None)
        certificate = x509.load_pem_x509_certificate(client.chain.read_bytes())
        authority = x509.load_pem_x509_certificate(ca.read_bytes())
        unused_pem = trustme.CA(organization_name="Unused").cert_pem.bytes()
        unused = x509.load_pem_x509_certificate(unused_pem)
        encryption = BestAvailableEncryption(KEY_PASSWORD.encode())
        files = {
            "SSL_ca_der": authority.public_bytes(Encoding.DER),
            "SSL_all_cas_pem": unused_pem + ca.read_bytes(),
            "SSL_pub_der": certificate.public_bytes(Encoding.DER),
            "SSL_priv_der": key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
            "SSL_pkcs": pkcs12.serialize_key_and_certificates(
                b"client",
                key,
                certificate,
                [unused, authority],
                encryption,
            ),
        }
        for name, content in files.items():
            (directory / name).write_bytes(content)
        return {
            **{name: str(directory / name) for name in files},
            "SSL_ca_pem": str(ca),
            "SSL_pub_pem": str(client.chain),
            "SSL_priv_pem": str(client.locked),
            "SSL_password": KEY_PASSWORD,
            "SSL_client_auth": "none",
        }


def description() -> str:
    """A sentence that names the tests on secured nodes, and how these are secured."""
    numbers: dict[str, list[str]] = {}
    for number, secured in SECURED.items():
        numbers.setdefault(f"{secured.security}{secured.note}", []).append(number)
    parts = [f"{', '.join(each)} over {words}" for words, each in numbers.items()]
    return f"Tests of security have nodes of their own: {'; '.join(parts)}"
