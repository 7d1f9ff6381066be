"""The settings with which each Kafka client logs in as a user of a test cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

Client: TypeAlias = Literal["confluent-kafka", "aiokafka", "kafka-python", "spark", "java"]
"""The clients whose settings `Cluster.client_settings` knows. ``java`` stands for Kafka's own names."""


@dataclass(frozen=True)
class Account:
    """A user as clients need it; ``store`` is the file with the user's key and certificate."""

    protocol: str
    user: str
    mechanism: str | None = None
    password: str = field(default="", repr=False)
    authority: Path | None = None
    store: Path | None = None


def settings_of(client: str, servers: str, account: Account | None) -> dict[str, Any]:
    """The settings of a client that connects to ``servers``; without an account it does not log in.

    Raises ValueError for an unknown client.
    """
    if client not in _CLIENTS:
        raise ValueError(f"client_settings knows no client {client!r}: expected one of {', '.join(_CLIENTS)}")
    address, security = _CLIENTS[client]
    return {address: servers} | ({} if account is None else security(account))


def java_settings(account: Account) -> dict[str, str]:
    """The properties of Kafka's Java clients, which all commands of Penstock take too."""
    made = {"security.protocol": account.protocol}
    if account.authority is not None:
        made |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(account.authority)}
    if account.store is not None:
        made |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(account.store)}
    if account.mechanism is not None:
        login = {"username": account.user, "password": account.password}
        made |= {"sasl.mechanism": account.mechanism, "sasl.jaas.config": jaas(account.mechanism, login)}
    return made


def jaas(mechanism: str, options: dict[str, str]) -> str:
    """Login settings in Kafka's syntax."""
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    words = (f"{name}={_quoted(value)}" for name, value in options.items())
    return f"org.apache.kafka.common.security.{module}LoginModule required {' '.join(words)};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _confluent_kafka(account: Account) -> dict[str, Any]:
    made = {"security.protocol": account.protocol}
    if account.authority is not None:
        made["ssl.ca.location"] = str(account.authority)
    if account.store is not None:
        made |= {"ssl.certificate.location": str(account.store), "ssl.key.location": str(account.store)}
    if account.mechanism is not None:
        made |= {
            "sasl.mechanism": account.mechanism,
            "sasl.username": account.user,
            "sasl.password": account.password,
        }
    return made


def _kafka_python(account: Account) -> dict[str, Any]:
    made = {"security_protocol": account.protocol} | _python_login(account)
    if account.authority is not None:
        made["ssl_cafile"] = str(account.authority)
    if account.store is not None:
        made |= {"ssl_certfile": str(account.store), "ssl_keyfile": str(account.store)}
    return made


def _aiokafka(account: Account) -> dict[str, Any]:
    made: dict[str, Any] = {"security_protocol": account.protocol, **_python_login(account)}
    if account.authority is not None:
        import ssl

        made["ssl_context"] = context = ssl.create_default_context(cafile=str(account.authority))
        if account.store is not None:
            context.load_cert_chain(account.store)
    return made


def _python_login(account: Account) -> dict[str, str]:
    if account.mechanism is None:
        return {}
    return {
        "sasl_mechanism": account.mechanism,
        "sasl_plain_username": account.user,
        "sasl_plain_password": account.password,
    }


def _spark(account: Account) -> dict[str, Any]:
    return {f"kafka.{name}": value for name, value in java_settings(account).items()}


_CLIENTS: Final[dict[str, tuple[str, Callable[[Account], dict[str, Any]]]]] = {
    "confluent-kafka": ("bootstrap.servers", _confluent_kafka),
    "aiokafka": ("bootstrap_servers", _aiokafka),
    "kafka-python": ("bootstrap_servers", _kafka_python),
    "spark": ("kafka.bootstrap.servers", _spark),
    "java": ("bootstrap.servers", java_settings),
}
"""For each client: its name for the address, and what makes its settings of an account."""
