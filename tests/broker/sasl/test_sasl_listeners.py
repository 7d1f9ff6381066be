"""Listeners with SASL: who comes in, as whom, what comes before that, and how long it lasts."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from certificates import Authority
from in_process import run, running_node
from penstock.broker.node import Broker
from penstock.metadata.configs.support import STANDARD_AUTHORIZER
from penstock.metadata.image.scram import credential_record
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from penstock.security.sasl.clients import Login
from penstock.security.scram import ScramMechanism, credential, salted_password
from token_wire import TokenWire

TIMEOUT_S = 20
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = f'{PLAIN} required user_admin="admin-secret" user_ann="ann-secret";'


def node_with(directory: Path, **properties: str) -> AbstractAsyncContextManager[Broker]:
    """A node with a listener CLIENT where PLAIN and SCRAM are enabled."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:0",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.client.plain.sasl.jaas.config": USERS,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:root;User:ANONYMOUS",
    }
    return running_node(directory, **{**settings, **properties})


def client(broker: Broker, mechanism: str, name: str, password: str) -> AdminClient:
    host, port = broker.advertised("CLIENT")
    return AdminClient(
        {
            "bootstrap.servers": f"{host}:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "log_level": 0,
        }
    )


def create_topic(admin: AdminClient, topic: str) -> str:
    """Create a topic, and return the error's name."""
    created = admin.create_topics([NewTopic(topic, 1)], request_timeout=TIMEOUT_S)
    try:
        created[topic].result(TIMEOUT_S)
    except KafkaException as error:
        return str(error.args[0].name())
    return "NO_ERROR"


def refusal(broker: Broker, mechanism: str, name: str, password: str) -> KafkaError:
    """The error that a client's callback gets."""
    errors: list[KafkaError] = []
    host, port = broker.advertised("CLIENT")
    admin = AdminClient(
        {
            "bootstrap.servers": f"{host}:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "log_level": 0,
            "error_cb": errors.append,
        }
    )
    while not errors:
        admin.poll(0.1)
    return errors[0]


def test_plain_and_scram_make_the_principal(tmp_path: Path) -> None:
    async def story() -> None:
        async with node_with(tmp_path) as broker:
            for mechanism in ScramMechanism:
                salted = salted_password(mechanism, "root-secret", b"salt", 4096)
                made = credential(mechanism, b"salt", salted, 4096)
                broker.image.scram.put(credential_record("root", mechanism, made))
            outcomes = [
                await asyncio.to_thread(
                    create_topic, client(broker, mechanism, name, f"{name}-secret"), topic
                )
                for mechanism, name, topic in (
                    ("PLAIN", "admin", "a"),
                    ("PLAIN", "ann", "b"),
                    ("SCRAM-SHA-256", "root", "c"),
                    ("SCRAM-SHA-512", "root", "d"),
                )
            ]
            assert outcomes == ["NO_ERROR", "TOPIC_AUTHORIZATION_FAILED", "NO_ERROR", "NO_ERROR"]

    run(story())


def test_sasl_makes_the_principal_of_a_client_with_a_certificate(tmp_path: Path) -> None:
    """As in Kafka, the name in the certificate does not matter; not even a rule has to match it."""
    authority = Authority(tmp_path / "authority")

    async def story() -> None:
        async with node_with(
            tmp_path / "node",
            **{
                "listener.security.protocol.map": (
                    "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENT:SASL_SSL"
                ),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.server.store),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.certificate),
                "listener.name.client.ssl.client.auth": "required",
                "ssl.principal.mapping.rules": "RULE:^CN=nobody$/nobody/",
                "connections.max.reauth.ms": "60000",
            },
        ) as broker:
            host, port = broker.advertised("CLIENT")
            admin = AdminClient(
                {
                    "bootstrap.servers": f"{host}:{port}",
                    "security.protocol": "SASL_SSL",
                    "ssl.ca.location": str(authority.certificate),
                    "ssl.certificate.location": str(authority.client.chain),
                    "ssl.key.location": str(authority.client.key),
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": "admin",
                    "sasl.password": "admin-secret",
                    "log_level": 0,
                }
            )
            assert await asyncio.to_thread(create_topic, admin, "by-the-administrator") == "NO_ERROR"

    run(story())


def test_clients_learn_why_they_are_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with node_with(tmp_path) as broker:
            for mechanism, name, password, words in (
                ("PLAIN", "ann", "wrong", "Authentication failed: Invalid username or password"),
                ("PLAIN", "bob", "x", "Authentication failed: Invalid username or password"),
                (
                    *("SCRAM-SHA-256", "ann", "ann-secret"),
                    "Authentication failed during authentication due to invalid credentials with SASL "
                    "mechanism SCRAM-SHA-256",
                ),
            ):
                error = await asyncio.to_thread(refusal, broker, mechanism, name, password)
                assert error.code() == KafkaError._AUTHENTICATION
                assert words in error.str()

    run(story())


def test_a_user_that_was_deleted_is_out_at_the_end_of_its_session(tmp_path: Path) -> None:
    name, (mechanism, _) = "eve", ScramMechanism
    salted = salted_password(mechanism, "eve-secret", b"salt", 4096)
    settings = {"listener.name.client.connections.max.reauth.ms": "60000"}

    def story(host: str, port: int) -> None:
        def connect() -> TokenWire:
            return TokenWire(f"{host}:{port}", TIMEOUT_S)

        def alter(request: AlterUserScramCredentialsRequest) -> None:
            with connect() as admin:
                assert admin.log_in("PLAIN", Login("admin", "admin-secret")).error_code == 0
                [result] = admin.ask(request, AlterUserScramCredentialsResponse).results
                assert result.error_code == 0, result.error_message

        def log_in(wire: TokenWire) -> int:
            return wire.log_in(mechanism.title, Login(name, "eve-secret")).error_code

        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=salted
        )
        deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=name, mechanism=mechanism)
        alter(AlterUserScramCredentialsRequest(upsertions=[upsertion]))
        with connect() as inside, connect() as late:
            assert log_in(inside) == 0
            alter(AlterUserScramCredentialsRequest(deletions=[deletion]))
            assert log_in(late) == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert inside.is_served(), "as in Kafka, its session goes on"
            assert log_in(inside) == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert not inside.is_served(), "it could not authenticate again"

    async def on_loop() -> None:
        async with node_with(tmp_path, **settings) as broker:
            await asyncio.to_thread(story, *broker.advertised("CLIENT"))

    run(on_loop())


def test_classes_set_over_the_wire_load_nothing_and_lock_nobody_out(tmp_path: Path) -> None:
    """As in CVE-2023-25194 and CVE-2025-27818, which load login modules that look up names elsewhere."""
    jndi = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://127.0.0.1/x";'
    changes = {
        "sasl.jaas.config": jndi,
        "listener.name.client.plain.sasl.jaas.config": jndi,
        "listener.name.client.scram-sha-256.sasl.jaas.config": jndi,
        "listener.name.client.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.client.principal.builder.class": "com.example.Builder",
        "ssl.engine.factory.class": "com.example.Engine",
    }

    def alter(broker: Broker) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.BROKER, str(broker.node_id), incremental_configs=entries)
        admin = client(broker, "PLAIN", "admin", "admin-secret")
        admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S)[resource].result(TIMEOUT_S)

    async def story() -> None:
        async with node_with(tmp_path) as broker:
            await asyncio.to_thread(alter, broker)
            assert broker.config.text("sasl.jaas.config") == jndi
        for topic in ("now", "after-a-restart"):
            async with node_with(tmp_path) as broker:
                admin = client(broker, "PLAIN", "admin", "admin-secret")
                assert await asyncio.to_thread(create_topic, admin, topic) == "NO_ERROR"

    run(story())
