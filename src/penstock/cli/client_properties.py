"""The properties of a client, as `--command-config` has them: under the names of Kafka's Java clients.

Commands use two clients. This package's own one has these names. librdkafka calls some properties otherwise
and reads stores in other formats, so that they are translated for it. It also takes its own names; a file
with those serves only the commands that use it, and the others say what they expect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from penstock.client.security.security_config import SecurityConfig
    from penstock.security.kerberos.settings import KerberosSettings

TokenCallback: TypeAlias = Callable[[str], tuple[str, float, str, dict[str, str]]]
"""A function that librdkafka calls for a token: it returns the token, its end, a name and extensions."""

_TRANSLATED: Final = (
    *(
        "sasl.oauthbearer.",
        "sasl.login.",
        "sasl.kerberos.",
        "sasl.jaas.config",
        "ssl.truststore.",
        "ssl.keystore.",
        "ssl.key.password",
    ),
    *("ssl.cipher.suites", "ssl.enabled.protocols", "ssl.protocol"),
)
"""The beginnings of names whose values librdkafka takes otherwise, or not at all."""

_OF_LIBRDKAFKA: Final = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.key.location": "ssl.keystore.location",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "sasl.oauthbearer.method": "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.config": "sasl.jaas.config",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.kerberos.keytab": "sasl.jaas.config",
    "sasl.kerberos.principal": "sasl.jaas.config",
}
"""librdkafka's names of properties, with Kafka's."""


def check_own_names(properties: Mapping[str, str]) -> None:
    """Check that no property has only librdkafka's name. Raises ConfigError."""
    from penstock.client.settings import ConfigError

    for name, of_kafka in _OF_LIBRDKAFKA.items():
        if name in properties and of_kafka not in properties:
            raise ConfigError(
                f"{name} is librdkafka's name, which this command does not use: expected {of_kafka}"
            )


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str | TokenCallback]:
    """Translate the properties that librdkafka takes otherwise.

    Raises ValueError, which names a property with an invalid value, or one that librdkafka has no equal of.
    """
    kept = {name: value for name, value in properties.items() if not name.startswith(_TRANSLATED)}
    mechanism = properties.get("sasl.mechanism", "").upper()
    is_oauth = mechanism == "OAUTHBEARER"
    has_own_names = not _OF_LIBRDKAFKA.keys().isdisjoint(properties)
    if has_own_names or (len(kept) == len(properties) and not is_oauth):
        return dict(properties)
    from penstock.client.security.security_config import SecurityConfig
    from penstock.client.settings import from_properties

    config = from_properties(SecurityConfig, properties)
    translated: dict[str, str | TokenCallback] = {**kept}
    translated |= {"ssl.endpoint.identification.algorithm": config.identification or "none"}
    if config.login is not None:
        if config.login.by_token:
            raise ValueError("sasl.jaas.config has tokenauth, and librdkafka cannot log in with tokens")
        translated |= {"sasl.username": config.login.username, "sasl.password": config.login.password}
    if is_oauth and config.uses_sasl:
        translated["oauth_cb"] = _token_callback(config)
    if mechanism == "GSSAPI" and config.uses_sasl:
        from penstock.client.security.kerberos_config import kerberos_settings

        _require_gssapi()
        translated |= kerberos_of(kerberos_settings(config.jaas, config.kerberos_service_name))
    if config.uses_tls:
        translated |= _stores(config)
    return translated


def _token_callback(config: SecurityConfig) -> TokenCallback:
    """Give librdkafka the tokens of this package's own login, which knows all of Kafka's ways to get one."""

    def callback(_config: str) -> tuple[str, float, str, dict[str, str]]:
        from penstock.client.security.oauth_config import token_login
        from penstock.security.oauth.tokens import life_of

        login = token_login(config.of_oauth(), config.jaas)()
        expires_at_ms = life_of(login.token, config.principal_claim).expires_at_ms
        return login.token, expires_at_ms / 1000, "", dict(login.extensions)

    return callback


def kerberos_of(settings: KerberosSettings) -> dict[str, str]:
    """librdkafka's settings of a login, whose tickets it has `kinit` get from the key table."""
    translated = {"sasl.kerberos.service.name": settings.service_name}
    if settings.principal is not None:
        translated["sasl.kerberos.principal"] = settings.principal
    if settings.keytab is not None:
        translated["sasl.kerberos.keytab"] = settings.keytab
    if not settings.uses_keytab:
        translated["sasl.kerberos.kinit.cmd"] = ""  # the tickets are there already
    return translated


def _require_gssapi() -> None:
    """Check that the installed librdkafka has GSSAPI. Raises ValueError."""
    from confluent_kafka import KafkaException, Producer

    try:
        Producer({"builtin.features": "sasl_gssapi", "log_level": 0})
    except KafkaException:
        raise ValueError(
            "sasl.mechanism GSSAPI: this command uses librdkafka, which was built without it. Install "
            "confluent-kafka from source, on a librdkafka with Cyrus SASL"
        ) from None


def _stores(config: SecurityConfig) -> dict[str, str]:
    from penstock.security.tls.ciphers import TLS13_SUITES, openssl_name
    from penstock.security.tls.pem import certificates_text
    from penstock.security.tls.stores import Stores

    stores = Stores.read(config.tls_settings)
    found: dict[str, str] = {}
    if stores.trusted is not None:
        found["ssl.ca.pem"] = certificates_text(stores.trusted.certificates)
    identity = stores.identity
    if identity is not None:
        found |= {"ssl.key.pem": identity.key, "ssl.certificate.pem": certificates_text(identity.chain)}
        if identity.password is not None:
            found["ssl.key.password"] = identity.password
    suites = [openssl_name(suite) for suite in config.cipher_suites if suite not in TLS13_SUITES]
    if suites:
        found["ssl.cipher.suites"] = ":".join(suites)
    return found
