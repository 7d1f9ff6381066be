"""Listeners with TLS: whom they let in and as whom, their limits, and new certificates without a restart."""

import asyncio
import hashlib
import logging
import os
import random
import shutil
import socket
import ssl
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from broker_wire import Wire, batch_of, produce_request
from certificates import Authority, Identity
from in_process import run, running_node
from penstock.broker.network import handshakes
from penstock.broker.node import Broker, CannotStart
from penstock.broker.tls import kernel_support, listeners
from penstock.metadata.configs.support import STANDARD_AUTHORIZER
from penstock.metadata.image.client_quotas import (
    PRODUCER_BYTE_RATE,
    client_quota_entity,
    client_quota_record,
)
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stores import Stores
from waiting import until, wait_until

TIMEOUT_S = 20


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("listeners") / "authority")


@pytest.fixture(params=[None, "not in this test"], ids=["kernel", "process"])
def each_mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that let the kernel encrypt, and nodes that do it themselves.

    A kernel that cannot encrypt serves the first as it does for a cipher that it lacks.
    """
    monkeypatch.setattr(listeners, "kernel_tls_obstacle", lambda stores: request.param)


def node_with(
    directory: Path, authority: Authority, **properties: str
) -> AbstractAsyncContextManager[Broker]:
    """A node with a listener without TLS, one with it, and MUTUAL, where clients must show a certificate."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,MUTUAL://127.0.0.1:0",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    return running_node(directory, **{**settings, **properties})


def address(broker: Broker, listener: str) -> tuple[str, int]:
    host, port = broker.advertised(listener)
    return host, port


def settings_of(
    broker: Broker, listener: str, authority: Authority, identity: Identity | None = None
) -> dict[str, str | int | bool]:
    """The settings of a client of confluent-kafka."""
    host, port = address(broker, listener)
    settings: dict[str, str | int | bool] = {"bootstrap.servers": f"{host}:{port}", "log_level": 0}
    if listener != "PLAINTEXT":
        settings |= {"security.protocol": "ssl", "ssl.ca.location": str(authority.certificate)}
    if identity is not None:
        settings |= {
            "ssl.certificate.location": str(identity.chain),
            "ssl.key.location": str(identity.key),
        }
    return settings


def connections_of(broker: Broker) -> int:
    """The number of this machine's connections to the broker's listeners."""
    return broker.connection_quotas[0].connections_of("127.0.0.1")


def create_topic(client: AdminClient, topic: str) -> str:
    """Create a topic, and return the error's name."""
    created = client.create_topics([NewTopic(topic, 1)], request_timeout=TIMEOUT_S)
    try:
        created[topic].result(TIMEOUT_S)
    except KafkaException as error:
        return str(error.args[0].name())
    return "NO_ERROR"


def client_context(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


def shown_certificate(broker: Broker, authority: Authority, listener: str = "SSL") -> bytes | None:
    """The certificate that the listener shows to a new connection."""
    context = client_context(authority)
    with (
        socket.create_connection(address(broker, listener), TIMEOUT_S) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        return tls.getpeercert(binary_form=True)


# Who comes in, and as whom


def test_a_certificate_makes_the_principal(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with node_with(
            tmp_path,
            authority,
            **{
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:CN=client,OU=Tests,O=Penstock",
            },
        ) as broker:
            mutual = AdminClient(settings_of(broker, "MUTUAL", authority, authority.client))
            other = AdminClient(settings_of(broker, "MUTUAL", authority, authority.server))
            open_to_all = AdminClient(settings_of(broker, "SSL", authority))
            assert await asyncio.to_thread(create_topic, mutual, "by-the-client") == "NO_ERROR"
            assert await asyncio.to_thread(create_topic, other, "other") == "TOPIC_AUTHORIZATION_FAILED"
            assert await asyncio.to_thread(create_topic, open_to_all, "any") == "TOPIC_AUTHORIZATION_FAILED"

    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    run(story())
    for name in ("CN=server,OU=Tests,O=Penstock", "ANONYMOUS"):
        assert f"Principal = User:{name} is Denied operation = CREATE" in caplog.text


def test_open_listeners_that_others_reach_are_named_at_the_start(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:0,MUTUAL://0.0.0.0:0,SSL://:0",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:0,MUTUAL://localhost:0,SSL://localhost:0",
    }

    async def story() -> None:
        async with node_with(tmp_path, authority, **listeners):
            pass

    run(story())
    (line,) = [record.getMessage() for record in caplog.records if "authenticated" in record.message]
    assert line == "clients are not authenticated listeners=SSL://:0 remedy=docs/security.md"


def test_rules_make_short_names_of_certificates(tmp_path: Path, authority: Authority) -> None:
    async def story() -> None:
        rules = r"RULE:^CN=([a-z]+),OU=Nobody.*$/no/,RULE:^CN=([a-z]+),OU=Tests.*$/of-$1/U,DEFAULT"
        async with node_with(
            tmp_path,
            authority,
            **{
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:OF-CLIENT",
                "ssl.principal.mapping.rules": rules,
            },
        ) as broker:
            mutual = AdminClient(settings_of(broker, "MUTUAL", authority, authority.client))
            assert await asyncio.to_thread(create_topic, mutual, "t") == "NO_ERROR"

    run(story())


@pytest.mark.usefixtures("each_mode")
def test_a_client_whose_name_no_rule_matches_is_closed(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> None:
        rules = {"ssl.principal.mapping.rules": "RULE:^CN=nobody$/nobody/"}
        async with node_with(tmp_path, authority, **rules) as broker:
            settings = settings_of(broker, "MUTUAL", authority, authority.client)
            with pytest.raises(KafkaException):
                await asyncio.to_thread(AdminClient(settings).list_topics, timeout=2)
            await until(lambda: not connections_of(broker))
            assert broker.server.stats.failed_handshakes

    run(story())
    assert "no rule of 'ssl.principal.mapping.rules' matches 'CN=client,OU=Tests,O=Penstock'" in caplog.text


def test_without_a_certificate_nobody_passes_where_one_is_required(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> None:
        async with node_with(tmp_path, authority) as broker:
            for identity in (None, Authority(tmp_path / "foreign").client):
                settings = settings_of(broker, "MUTUAL", authority, identity)
                with pytest.raises(KafkaException) as refused:
                    await asyncio.to_thread(AdminClient(settings).list_topics, timeout=2)
                assert refused.value.args[0].code() == KafkaError._TRANSPORT
            assert not broker.server.connections
            assert broker.server.stats.failed_handshakes >= 2

    run(story())
    assert "reason=PEER_DID_NOT_RETURN_A_CERTIFICATE" in caplog.text
    assert "reason=the certificate is not accepted" in caplog.text


@pytest.mark.usefixtures("each_mode")
def test_a_wrong_protocol_ends_a_connection_and_harms_nobody(tmp_path: Path, authority: Authority) -> None:
    async def story() -> None:
        async with node_with(tmp_path, authority) as broker:
            for listener, sent in (
                ("SSL", b"\x00\x00\x00\x1b\x00\x12\x00\x03" + bytes(24)),
                ("SSL", b"GET / HTTP/1.1\r\n\r\n"),
                ("PLAINTEXT", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506)),
            ):
                reader, writer = await asyncio.open_connection(*address(broker, listener))
                writer.write(sent)
                with pytest.raises(asyncio.IncompleteReadError) as end:
                    await asyncio.wait_for(reader.readexactly(1000), TIMEOUT_S)
                assert b"HTTP" not in end.value.partial
                writer.close()
            assert await asyncio.to_thread(shown_certificate, broker, authority)

    run(story())


# Limits


@pytest.mark.usefixtures("each_mode")
def test_a_handshake_has_a_time_limit(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_TIMEOUT_S", 0.2)

    async def story() -> None:
        async with node_with(tmp_path, authority) as broker:
            beginnings = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01")
            streams = [await asyncio.open_connection(*address(broker, "SSL")) for _ in beginnings]
            for (_reader, writer), sent in zip(streams, beginnings, strict=True):
                writer.write(sent)
            for reader, writer in streams:
                assert await asyncio.wait_for(reader.read(1), TIMEOUT_S) == b""
                writer.close()
            assert broker.server.stats.failed_handshakes == len(beginnings)

    run(story())


@pytest.mark.usefixtures("each_mode")
def test_probes_of_the_port_are_no_failed_handshakes(tmp_path: Path, authority: Authority) -> None:
    async def story() -> None:
        async with node_with(tmp_path, authority) as broker:
            _reader, writer = await asyncio.open_connection(*address(broker, "SSL"))
            writer.close()
            await until(lambda: broker.server.stats.accepted == 1 and not connections_of(broker))
            assert broker.server.stats.failed_handshakes == 0

    run(story())


@pytest.mark.usefixtures("each_mode")
def test_slow_handshakes_make_room_for_others(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 3)

    async def story() -> None:
        async with node_with(tmp_path, authority) as broker:
            slow = [await asyncio.open_connection(*address(broker, "SSL")) for _ in range(5)]
            assert await asyncio.to_thread(shown_certificate, broker, authority)
            assert await asyncio.wait_for(slow[0][0].read(1), TIMEOUT_S) == b""
            for _reader, writer in slow:
                writer.close()

    run(story())


@pytest.mark.usefixtures("each_mode")
def test_handshakes_count_as_connections(tmp_path: Path, authority: Authority) -> None:
    async def story() -> None:
        async with node_with(tmp_path, authority, **{"max.connections.per.ip": "2"}) as broker:
            silent = [await asyncio.open_connection(*address(broker, "SSL")) for _ in range(2)]
            reader, writer = await asyncio.open_connection(*address(broker, "SSL"))
            assert await asyncio.wait_for(reader.read(1), TIMEOUT_S) == b""
            writer.close()
            silent[0][1].close()
            await until(lambda: connections_of(broker) < 2)
            assert await asyncio.to_thread(shown_certificate, broker, authority)
            silent[1][1].close()

    run(story())


@pytest.mark.usefixtures("each_mode")
def test_a_stop_does_not_wait_for_handshakes(tmp_path: Path, authority: Authority) -> None:
    async def story() -> None:
        async with node_with(tmp_path, authority) as broker:
            reader, writer = await asyncio.open_connection(*address(broker, "SSL"))
        assert await asyncio.wait_for(reader.read(1), TIMEOUT_S) == b""
        writer.close()

    run(story())


# Records


def produce(settings: dict[str, str | int | bool], topic: str, values: list[bytes]) -> None:
    producer = Producer({**settings, "queue.buffering.max.ms": 50})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def consume(settings: dict[str, str | int | bool], topic: str, count: int) -> list[bytes]:
    """Return the digests of the topic's first values."""
    consumer = Consumer({**settings, "group.id": "none", "fetch.max.bytes": 10_000_000})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        found.append(digest(message.value() or b""))
    consumer.close()
    return found


def digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


@pytest.mark.usefixtures("each_mode")
def test_large_records_arrive_through_sockets_with_and_without_tls(
    tmp_path: Path, authority: Authority
) -> None:
    """Fetches are sent from files, by several pieces of encrypted bytes for each."""
    values = [random.Random(number).randbytes(700_000) for number in range(40)]

    async def story() -> None:
        async with node_with(tmp_path, authority) as broker:
            plain, secured = (settings_of(broker, name, authority) for name in ("PLAINTEXT", "SSL"))
            for topic, sender, receiver in (("in", secured, plain), ("out", plain, secured)):
                await asyncio.to_thread(create_topic, AdminClient(plain), topic)
                await asyncio.to_thread(produce, sender, topic, values)
                found = await asyncio.to_thread(consume, receiver, topic, len(values))
                assert found == [digest(value) for value in values]

    run(story())


@pytest.mark.usefixtures("each_mode")
def test_a_throttled_connection_goes_on_with_bytes_that_tls_has_received(
    tmp_path: Path, authority: Authority
) -> None:
    """The selector does not see bytes that TLS has decrypted before the connection was muted."""

    def send_together(broker: Broker) -> None:
        context = client_context(authority)
        plaintext = ":".join(map(str, address(broker, "PLAINTEXT")))
        with (
            Wire(plaintext) as wire,
            socket.create_connection(address(broker, "SSL")) as sock,
            context.wrap_socket(sock, server_hostname="localhost") as tls,
        ):
            wire.create_topic("t")
            request = produce_request("t", batch_of(b"x" * 400_000), acks=0)
            tls.sendall(b"".join(wire.frame(request, 9)[0] for _ in range(3)))
            wait_until(lambda: len(wire.values("t")) == 3)

    async def story() -> None:
        async with node_with(tmp_path, authority, **{"quota.window.num": "2"}) as broker:
            entity = client_quota_entity({"user": None})
            quotas = broker.image.client_quotas
            quotas.replay(client_quota_record(entity, PRODUCER_BYTE_RATE, 390_000))
            broker.quotas.committed(0)
            await asyncio.to_thread(send_together, broker)
            assert sum(meter.throttles for meter in broker.quotas.produce) > 0

    run(story())


def test_the_kernel_encrypts_slices_of_files(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TlsSettings(keystore_type="PEM", keystore_location=str(authority.server.store))
    obstacle = kernel_support.kernel_tls_obstacle(Stores.read(settings))
    if obstacle is not None:
        pytest.skip(f"no kernel TLS here: {obstacle}")
    sendfile, sent_bytes = os.sendfile, 0

    def counting(out_fd: int, file: int, position: int, count: int) -> int:
        nonlocal sent_bytes
        sent = sendfile(out_fd, file, position, count)
        sent_bytes += sent
        return sent

    monkeypatch.setattr(os, "sendfile", counting)
    values = [random.Random(number).randbytes(700_000) for number in range(10)]

    async def story() -> None:
        async with node_with(tmp_path, authority) as broker:
            assert broker.tls.mode == "kernel"
            secured = settings_of(broker, "SSL", authority)
            await asyncio.to_thread(create_topic, AdminClient(secured), "t")
            await asyncio.to_thread(produce, secured, "t", values)
            offloaded = offloaded_connections()
            found = await asyncio.to_thread(consume, secured, "t", len(values))
            assert found == [digest(value) for value in values]
            assert offloaded_connections() > offloaded

    run(story())
    assert sent_bytes > 10 * 700_000


def offloaded_connections() -> int:
    """The number of connections that the kernel has ever had keys for sending of."""
    lines = Path("/proc/net/tls_stat").read_text().splitlines()
    counts = {name: int(count) for name, count in (line.split() for line in lines)}
    return counts["TlsTxSw"] + counts["TlsTxDevice"]


# Other certificates


def alter(settings: dict[str, str | int | bool], name: str, value: str) -> str:
    """Alter a config of broker 1, and return the error's message."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    client = AdminClient(settings)
    altered = client.incremental_alter_configs([resource], request_timeout=TIMEOUT_S)
    try:
        altered[resource].result(TIMEOUT_S)
    except KafkaException as error:
        return str(error.args[0].str())
    return ""


def test_new_certificates_need_no_restart(tmp_path: Path, authority: Authority) -> None:
    location = "listener.name.ssl.ssl.keystore.location"
    used = tmp_path / "used.pem"

    async def story() -> None:
        shutil.copy(authority.server.store, used)
        async with node_with(tmp_path / "node", authority, **{location: str(used)}) as broker:
            plain = settings_of(broker, "PLAINTEXT", authority)
            before = await asyncio.to_thread(shown_certificate, broker, authority)
            _reader, writer = await asyncio.open_connection(
                *address(broker, "SSL"), ssl=client_context(authority), server_hostname="localhost"
            )
            await until(lambda: any(c.listener_name == "SSL" for c in broker.server.connections.values()))
            (connection,) = [c for c in broker.server.connections.values() if c.listener_name == "SSL"]

            other = authority.issue("someone", "localhost")
            refused = await asyncio.to_thread(alter, plain, location, str(other.store))
            assert "distinguished name is CN=server,OU=Tests,O=Penstock" in refused
            fewer = Authority(tmp_path / "fewer").issue("server", "localhost")
            refused = await asyncio.to_thread(alter, plain, location, str(fewer.store))
            assert "alternative names" in refused
            refused = await asyncio.to_thread(alter, plain, location, str(tmp_path / "missing.pem"))
            assert "missing.pem" in refused
            assert await asyncio.to_thread(shown_certificate, broker, authority) == before

            shutil.copy(authority.issue("server", "127.0.0.1", "localhost").store, used)
            assert await asyncio.to_thread(alter, plain, location, str(used)) == ""
            renewed = before
            while renewed == before:
                renewed = await asyncio.to_thread(shown_certificate, broker, authority)
            assert not connection.closed, "open connections go on"
            writer.close()

    run(story())


def test_a_ticket_of_before_lets_nobody_in_once_the_trust_store_has_changed(
    tmp_path: Path, authority: Authority
) -> None:
    """A client resumes its session, without its certificate, until another authority is trusted."""
    location = "listener.name.mutual.ssl.truststore.location"
    other = Authority(tmp_path / "other")
    context = client_context(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # in 1.3, a listener gives no tickets
    context.load_cert_chain(authority.client.chain, authority.client.key)

    def connect(broker: Broker, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
        sock = socket.create_connection(address(broker, "MUTUAL"), TIMEOUT_S)
        return context.wrap_socket(sock, server_hostname="localhost", session=session)

    def story(broker: Broker) -> None:
        with connect(broker) as first:
            session = first.session
        with connect(broker, session) as again:
            assert again.session_reused
        assert alter(settings_of(broker, "PLAINTEXT", authority), location, str(other.certificate)) == ""

        def is_let_in() -> bool:
            try:
                with connect(broker, session) as late:
                    return late.session_reused or bool(late.recv(1))
            except (ssl.SSLError, ConnectionError):
                return False

        wait_until(lambda: not is_let_in())

    async def on_loop() -> None:
        async with node_with(tmp_path / "node", authority) as broker:
            await asyncio.to_thread(story, broker)

    run(on_loop())


def test_a_listener_needs_a_certificate_that_can_be_read(tmp_path: Path, authority: Authority) -> None:
    async def start(**properties: str) -> None:
        async with node_with(tmp_path / "node", authority, **properties):
            pass

    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
    for properties, words in (
        ({"ssl.keystore.location": str(tmp_path / "none.pem")}, ("ssl.keystore.location", "none.pem")),
        ({"ssl.keystore.location": str(authority.certificate)}, ("ssl.keystore.location", "ca.pem")),
        ({"ssl.keystore.location": str(store)}, ("JKS", "keytool -importkeystore")),
        ({"ssl.keystore.location": str(authority.server.locked)}, ("ssl.key.password",)),
        ({"listener.name.mutual.ssl.truststore.location": str(tmp_path)}, ("ssl.truststore.location",)),
    ):
        with pytest.raises(CannotStart) as refused:
            run(start(**properties))
        for word in words:
            assert word in str(refused.value)
