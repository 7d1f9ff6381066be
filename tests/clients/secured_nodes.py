"""How the nodes for other projects' tests are secured, and a user for their clients.

A listener has TLS, SASL, or both, and with SASL also the authorizer. Brokers authenticate to each other by
SASL/PLAIN, and to controllers by their certificate. The clients' user may log in by every mechanism.
"""

from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from certificates import KEY_PASSWORD, Authority

USER, PASSWORD = "client", "of-the-client"
ADMIN_TIMEOUT_S = 30.0
NODES = "User:node;User:CN=server,OU=Tests,O=Penstock"
"""Who nodes are by SASL/PLAIN, and by their certificate. They elect a leader before they have any ACL."""
AUTHORIZER: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": NODES,
}
LOGIN_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


class Security(NamedTuple):
    """A protocol of listeners, and the mechanism of SASL by which clients log in."""

    protocol: str
    mechanism: str = ""

    def __str__(self) -> str:
        return f"{self.protocol} with {self.mechanism}" if self.mechanism else self.protocol

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")


def settings_of_nodes(
    security: Security, authority: Authority, users: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The settings that secure the listener PLAINTEXT of nodes, by which brokers also reach each other.

    *users* of PLAIN are USER alone unless given.
    """
    settings = {
        "listener.security.protocol.map": f"CONTROLLER:SSL,PLAINTEXT:{security.protocol}",
        # Without it, Kafka's brokers reach each other by the protocol PLAINTEXT, whatever the map says.
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
    }
    if security.has_sasl:
        settings |= {**AUTHORIZER, **sasl_of_nodes("PLAINTEXT", users)}
    return settings


def sasl_of_nodes(listener: str, users: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings of SASL of a listener; *users* of PLAIN are USER alone unless given."""
    known = {"node": "of-node"} | dict(users or {USER: PASSWORD})
    plain = " ".join(f'user_{name}="{password}"' for name, password in known.items())
    options = {"PLAIN": f' username="node" password="of-node" {plain}'}
    prefix = f"listener.name.{listener.lower()}"
    return {
        "sasl.enabled.mechanisms": ",".join(LOGIN_MODULES),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        **{
            f"{prefix}.{mechanism.lower()}.sasl.jaas.config": (
                f"org.apache.kafka.common.security.{module} required{options.get(mechanism, '')};"
            )
            for mechanism, module in LOGIN_MODULES.items()
        },
    }


def settings_of_librdkafka(security: Security, authority: Authority) -> dict[str, str]:
    """The settings of a client that stands on librdkafka."""
    settings = {"security.protocol": security.protocol.lower()}
    if security.has_tls:
        settings |= {
            "ssl.ca.location": str(authority.certificate),
            "ssl.certificate.location": str(authority.client.chain),
            "ssl.key.location": str(authority.client.locked),
            "ssl.key.password": KEY_PASSWORD,
        }
    if security.has_sasl:
        settings |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
    return settings


def create_user(bootstrap: str, protocol: str, authority: Authority) -> None:
    """Create the clients' user of SCRAM with both mechanisms."""
    settings = settings_of_librdkafka(Security(protocol, "PLAIN"), authority)
    admin = AdminClient({"bootstrap.servers": bootstrap, **settings})
    for mechanism in SCRAM.values():
        user = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        admin.alter_user_scram_credentials([user])[USER].result(ADMIN_TIMEOUT_S)
