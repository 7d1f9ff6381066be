"""TLS connections: trusted and refused certificates, and no lost or delayed data."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

from certificates import KEY_PASSWORD, Authority
from penstock.client.config import ClientConfig, ServerAddress
from penstock.client.connections.connection import Connection
from penstock.client.connections.frames import RecordBytes
from penstock.client.errors import AuthenticationFailed, ServerUnreachable
from penstock.client.settings import ConfigError
from penstock.protocol.messages import (
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from penstock.protocol.records import Record, encode_batch


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


class Front:
    """A TLS server in front of a node; it passes all data on unchanged.

    One event loop serves all connections, because OpenSSL does not allow that one thread reads a connection
    while another writes to it.
    """

    def __init__(self, node, identity, client_authority=None):
        self._node = node
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.store)
        if client_authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_authority)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        server = self._run(asyncio.start_server(self._hand_on, "127.0.0.1", 0, ssl=context))
        self.address = ServerAddress(*server.sockets[0].getsockname())

    def close(self):
        self._run(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _cancel_all(self):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hand_on(self, from_client, to_client):
        from_node, to_node = await asyncio.open_connection(*self._node)
        await asyncio.gather(self._copy(from_client, to_node), self._copy(from_node, to_client))

    @staticmethod
    async def _copy(source, target):
        with contextlib.suppress(OSError), contextlib.closing(target):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()


@pytest.fixture
def front(penstock_cluster, authority):
    host, port = penstock_cluster.bootstrap_servers.split(":")
    fronts = []

    def open_front(identity=authority.server, client_authority=None):
        fronts.append(Front((host, int(port)), identity, client_authority))
        return fronts[-1].address

    yield open_front
    for each in fronts:
        each.close()


def connect(address, **properties):
    given = {"bootstrap.servers": "unused:1", "security.protocol": "SSL", "request.timeout.ms": "10000"}
    given |= {"ssl." + name.replace("_", "."): str(value) for name, value in properties.items()}
    return Connection.connect(address, ClientConfig.from_properties(given))


def ask(connection):
    return connection.call(MetadataRequest(topics=None), MetadataResponse).brokers


def test_whom_the_truststore_knows_is_trusted(front, authority):
    in_properties = authority.certificate.read_text()
    for trust in (
        {"truststore_location": authority.certificate, "truststore_type": "PEM"},
        {"truststore_certificates": in_properties},
    ):
        with contextlib.closing(connect(front(), **trust)) as connection:
            assert len(ask(connection)) == 1


def test_others_are_not(front, authority):
    with pytest.raises(AuthenticationFailed, match=r"not accepted: .*Set 'ssl\.truststore\.location'"):
        connect(front())
    address = front(authority.elsewhere)
    with pytest.raises(AuthenticationFailed, match="IP address mismatch"):
        connect(address, truststore_location=authority.certificate)
    unchecked = {"truststore_location": authority.certificate, "endpoint_identification_algorithm": ""}
    with contextlib.closing(connect(address, **unchecked)) as connection:
        assert ask(connection)


def test_a_server_without_tls_is_told_apart(penstock_cluster, authority):
    host, port = penstock_cluster.bootstrap_servers.split(":")
    with pytest.raises((AuthenticationFailed, ServerUnreachable)) as caught:
        connect(ServerAddress(host, int(port)), truststore_location=authority.certificate)
    assert f"{host}:{port}" in str(caught.value)


def test_a_server_that_says_nothing_is_given_up_in_time(authority):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = ServerAddress(*silent.getsockname())
        given = {
            "bootstrap.servers": "unused:1",
            "security.protocol": "SSL",
            "socket.connection.setup.timeout.ms": "100",
        }
        with pytest.raises(ServerUnreachable, match="timed out"):
            Connection.connect(address, ClientConfig.from_properties(given))


def test_a_client_shows_its_own_certificate(front, authority, tmp_path):
    address = front(client_authority=authority.certificate)
    trust = {"truststore_location": authority.certificate}
    client = authority.client
    store = tmp_path / "client.p12"
    key = load_pem_private_key(client.key.read_bytes(), None)
    certificate = load_pem_x509_certificate(client.chain.read_bytes())
    encryption = BestAvailableEncryption(b"of-the-store")
    store.write_bytes(serialize_key_and_certificates(b"client", key, certificate, None, encryption))
    for own in (
        {"keystore_location": client.store},
        {"keystore_location": client.locked, "key_password": KEY_PASSWORD},
        {"keystore_certificate_chain": client.chain.read_text(), "keystore_key": client.key.read_text()},
        {"keystore_location": store, "keystore_password": "of-the-store"},
        {"keystore_location": store, "keystore_password": "of-the-store", "keystore_type": "JKS"},
    ):
        with contextlib.closing(connect(address, **trust, **own)) as connection:
            assert ask(connection)
    with pytest.raises((AuthenticationFailed, ServerUnreachable)):
        ask(connect(address, **trust))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"truststore_location": "{directory}/none.pem"}, r"none\.pem' can't be read: No such file"),
        (
            {"truststore_location": "{directory}/java.jks"},
            r"java\.jks' is a JKS store: expected PEM or PKCS12",
        ),
        (
            {"truststore_certificates": "-----BEGIN CERTIFICATE-----\nMIIB"},
            "'ssl.truststore.certificates' has no certificate",
        ),
        ({"keystore_location": "{locked}"}, r"'ssl\.key\.password' is missing"),
        ({"keystore_location": "{locked}", "key_password": "hidden"}, r"'ssl\.key\.password' is wrong"),
        ({"keystore_location": "{chain}"}, "has 0 private keys: expected one"),
    ],
)
def test_stores_that_cannot_be_used_are_named(front, authority, tmp_path: Path, properties, message):
    (tmp_path / "java.jks").write_bytes(b"\xfe\xed\xfe\xed\x00")
    names = {"directory": tmp_path, "locked": authority.client.locked, "chain": authority.client.chain}
    given = {name: value.format(**names) for name, value in properties.items()}
    with pytest.raises(ConfigError, match=message) as caught:
        connect(front(), **given)
    assert "hidden" not in str(caught.value)


def test_large_requests_and_answers_that_come_together(front, authority, penstock_cluster):
    """If one TLS record holds several responses, the later ones are no longer in the socket."""
    topic = f"tls-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": penstock_cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    with contextlib.closing(connect(front(), truststore_location=authority.certificate)) as connection:
        value = bytes(range(256)) * 4000
        data = encode_batch([Record(0, time.time_ns() // 1_000_000, None, value)])
        partition = ProduceRequest.PartitionProduceData(index=0, records=RecordBytes(data))
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])]
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
        answer = connection.call(request, ProduceResponse, newest=12)
        assert answer.responses[0].partition_responses[0].error_code == 0
        for _ in range(20):
            connection.send(MetadataRequest(topics=None))
        assert connection.readable(10)
        for left in range(20, 0, -1):
            assert connection.in_flight == left
            assert connection.readable(10)
            assert len(connection.receive(MetadataResponse).brokers) == 1
        assert not connection.readable()
