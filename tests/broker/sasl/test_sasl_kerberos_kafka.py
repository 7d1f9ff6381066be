"""Logins by GSSAPI, right and wrong, at Apache Kafka and at a node: both give the same answers."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from test_sasl_authentication import SaslWire

from kafka_node import KafkaNode, free_port
from kdc import Kdc, login_settings
from penstock.security.kerberos.settings import read_settings
from penstock.security.sasl import clients
from penstock.security.sasl.gssapi import OFFER
from penstock.testing import Cluster

contexts = pytest.importorskip("penstock.security.kerberos.contexts", exc_type=ImportError)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TIMEOUT_S = 20
HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def servers(kdc: Kdc, kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The addresses of Apache Kafka and of a node, which have the same keys."""
    for service in ("kafka", "http"):
        kdc.admin(f"addprinc -randkey {service}/{HOST}")
    keys = kdc.home / "kafka.keytab"
    kdc.admin(f"ktadd -k {keys} kafka/{HOST}")
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.plaintext.gssapi.sasl.jaas.config": login_settings(keys, f"kafka/{HOST}"),
    }
    directory = tmp_path_factory.mktemp("kafka")
    with ExitStack() as nodes:
        kafka = KafkaNode(kafka_libs, directory, port=free_port(), config=settings)
        addresses = [nodes.enter_context(kafka).bootstrap_servers]
        cluster = nodes.enter_context(Cluster(settings, fork=False))
        yield [*addresses, cluster.bootstrap_servers]


@pytest.fixture(scope="module")
def keys(kdc: Kdc) -> Path:
    return kdc.add("ann")


def begin(keys: Path, service: str = "kafka") -> clients.KerberosTicket:
    login = contexts.KerberosLogin(read_settings(login_settings(keys, "ann"), service))
    ticket: clients.KerberosTicket = login(HOST)
    return ticket


def answers(address: str, *messages: bytes) -> tuple[int, str | None]:
    """The error of the last answer to messages on a connection of their own."""
    with SaslWire(address, TIMEOUT_S) as wire:
        wire.shake_hands("GSSAPI")
        *_, last = [wire.authenticate(message) for message in messages]
        return last.error_code, last.error_message


def chosen(address: str, keys: Path, choice: bytes) -> tuple[int, str | None]:
    """The error of the answer to a choice of layers."""
    with SaslWire(address, TIMEOUT_S) as wire:
        wire.shake_hands("GSSAPI")
        ticket = begin(keys)
        ticket.context.step(bytes(wire.authenticate(ticket.token).auth_bytes))
        wire.authenticate(b"")
        answer = wire.authenticate(ticket.context.wrap(choice))
        return answer.error_code, answer.error_message


def test_both_refuse_the_same_tokens(servers: list[str], keys: Path) -> None:
    def outcomes(address: str) -> list[tuple[int, str | None]]:
        token = begin(keys).token
        return [
            answers(address, token),
            answers(address, token),  # a replay
            answers(address, b""),
            answers(address, begin(keys).token[:40]),
            answers(address, begin(keys).token[:-3] + b"abc"),
            answers(address, b"\x60" * 400_000),
            answers(address, begin(keys, "http").token),
            answers(address, begin(keys).token, b"not empty"),
        ]

    of_kafka, ours = map(outcomes, servers)
    assert ours == of_kafka
    assert ours[0][0] == 0
    assert all(code for code, _ in ours[1:])


def test_both_accept_the_same_choices(servers: list[str], keys: Path) -> None:
    choices = (OFFER, OFFER + b"admin", b"\1\0\1\0", b"\2\0\0\0", b"\4\0\0\0", b"\0\0\0\0")
    of_kafka, ours = ([chosen(address, keys, choice) for choice in choices] for address in servers)
    assert ours == of_kafka
    assert [code == 0 for code, _ in ours] == [True, True, True, False, False, False]
