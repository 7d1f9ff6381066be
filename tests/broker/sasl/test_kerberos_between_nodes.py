"""Nodes that log in at each other by GSSAPI, as brokers and as controllers, over several sessions."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from in_process import run, running_node
from kdc import Kdc, login_settings
from penstock.testing import Cluster

pytest.importorskip("penstock.security.kerberos.contexts", exc_type=ImportError)

SESSION_MS = 1500
TIMEOUT_S = 30


@pytest.fixture(scope="module")
def keys(kdc: Kdc) -> Path:
    return kdc.add("kafka/127.0.0.1")


@pytest.fixture
def cluster(kdc: Kdc, keys: Path) -> Iterator[Cluster]:
    """Three nodes that authenticate everybody, whose sessions last a second."""
    login = login_settings(keys, "kafka/127.0.0.1")
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.mechanism.controller.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.controller.gssapi.sasl.jaas.config": login,
        "listener.name.plaintext.gssapi.sasl.jaas.config": login,
        "connections.max.reauth.ms": str(SESSION_MS),
    }
    with Cluster(settings, nodes=3, fork=False) as cluster:
        yield cluster


class End:
    """The end of a link, on which nothing is sent."""

    def frame_received(self, frame: memoryview) -> None:
        pytest.fail("no request was sent")

    def link_lost(self, reason: str) -> None:
        pytest.fail(reason)


def test_a_silent_kdc_does_not_stop_a_node(kdc: Kdc, keys: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(
            tmp_path,
            **{
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.mechanism.inter.broker.protocol": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "listener.name.plaintext.gssapi.sasl.jaas.config": login_settings(keys, "kafka/127.0.0.1"),
            },
        ) as broker:
            host, port = broker.advertised("PLAINTEXT")
            kdc.pause()
            try:
                dialing = asyncio.create_task(broker.dial_broker(host, port, End()))
                for _ in range(20):  # the node does other things meanwhile
                    await asyncio.sleep(0.01)
                assert not dialing.done()
            finally:
                kdc.resume()
            (await dialing).close()

    run(story())


def test_three_nodes_replicate_over_several_sessions(
    kdc: Kdc, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = kdc.home / "tickets"
    kdc.kinit(kdc.add("ann"), "ann", tickets)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tickets}")
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
        acks="all",
    )
    end_s, offset = time.monotonic() + 3 * SESSION_MS / 1000, -1
    while time.monotonic() < end_s:
        offset = producer.send("t", b"value", partition=0).get(TIMEOUT_S).offset
    for node in cluster.nodes:
        assert "session has ended" not in node.log_tail()
    cluster.node(1).kill()
    assert producer.send("t", b"after the loss", partition=0).get(TIMEOUT_S).offset == offset + 1
    producer.close()
