"""The issuer of tokens for librdkafka's test of OAUTHBEARER, and how nodes and clients reach it.

It answers as the suite's own issuer does (trivup's `OauthbearerOIDCApp`), but over HTTPS. The test asks for
tokens with a secret, with signed assertions, and as a virtual machine does; some of its requests must be
refused. Two other URLs give tokens that no node may accept.
"""

from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from secured_nodes import LOGIN_MODULES, PASSWORD, USER

from certificates import KEY_PASSWORD, Authority
from issuer import AUDIENCE, NAME, Issuer, IssuerServer

MECHANISM = "OAUTHBEARER"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
SCOPE = "test"  # the test asks for `invalid_scope` as well
EXPIRED_FOR_S = 60  # longer than the clocks of issuers and nodes may differ


class OidcIssuer(IssuerServer):
    """The issuer, and the environment in which the test finds its URLs and a private key for assertions."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        issuer = Issuer("RSA")  # librdkafka signs assertions with RS256 unless told otherwise
        issuer.key()
        super().__init__(issuer, authority)
        self.clients = {USER: PASSWORD}
        self.scopes = {SCOPE}
        self.answers["/token/expired"] = lambda: self.granted(issuer.token(USER, lifetime_s=-EXPIRED_FOR_S))
        self.answers["/token/damaged"] = lambda: self.granted(issuer.token(USER) + "invalid")
        self._trusted = authority.certificate
        self.environment: Mapping[str, str] = {
            "VALID_OIDC_URL": self.url("/token"),
            "INVALID_OIDC_URL": self.url("/token/damaged"),
            "EXPIRED_TOKEN_OIDC_URL": self.url("/token/expired"),
            **self._write_keys(directory),
        }

    def _write_keys(self, directory: Path) -> dict[str, str]:
        key = load_pem_private_key(self.issuer.key("assertions").as_pem(private=True), None)
        plain, locked = directory / "assertions.key", directory / "assertions-locked.key"
        encryption = BestAvailableEncryption(KEY_PASSWORD.encode())
        plain.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        locked.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return {
            "OAUTHBEARER_CLIENT_PRIVATE_KEY": str(plain),
            "OAUTHBEARER_CLIENT_PRIVATE_KEY_ENCRYPTED": str(locked),
            "OAUTHBEARER_CLIENT_PRIVATE_KEY_PASSWORD": KEY_PASSWORD,
        }

    def settings_of_nodes(self) -> dict[str, str]:
        """The settings with which the nodes' listener for clients accepts tokens of this issuer."""
        prefix = f"listener.name.plaintext.{MECHANISM.lower()}"
        return {
            "sasl.enabled.mechanisms": ",".join([*LOGIN_MODULES, MECHANISM]),
            f"{prefix}.sasl.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
            f"{prefix}.sasl.jaas.config": (
                f'{PACKAGE}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="node" '
                f'ssl.truststore.type="PEM" ssl.truststore.location="{self._trusted}";'
            ),
            "sasl.oauthbearer.jwks.endpoint.url": self.url("/jwks"),
            "sasl.oauthbearer.expected.issuer": NAME,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }

    def settings_of_librdkafka(self) -> dict[str, str]:
        """The settings with which clients on librdkafka fetch their tokens here."""
        return {
            "https.ca.location": str(self._trusted),
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": USER,
            "sasl.oauthbearer.client.secret": PASSWORD,
            "sasl.oauthbearer.scope": SCOPE,
            "sasl.oauthbearer.extensions": "ExtensionworkloadIdentity=develC348S,Extensioncluster=lkc123",
            "sasl.oauthbearer.token.endpoint.url": self.url("/token"),
        }
