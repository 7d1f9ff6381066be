"""Clients of all kinds that log in by GSSAPI with tickets of a real KDC, and the errors that they get."""

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_node import free_port, run_java
from kdc import Kdc, login_settings
from penstock.cli.client_properties import for_librdkafka, kerberos_of
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Client
from penstock.client.errors import AuthenticationFailed
from penstock.client.security.kerberos_config import kerberos_settings
from penstock.testing import Cluster
from round_trips import COUNT, by_aiokafka, by_java, by_kafka_python

pytest.importorskip("penstock.security.kerberos.contexts", exc_type=ImportError)

HOST = "localhost"


@pytest.fixture(scope="module")
def ann_keys(kdc: Kdc) -> Path:
    return kdc.add("ann")


@pytest.fixture(scope="module")
def cluster(kdc: Kdc, ann_keys: Path) -> Iterator[Cluster]:
    """A node that knows its clients by GSSAPI, and whose sessions last some seconds."""
    keys, port = kdc.add(f"kafka/{HOST}"), free_port()
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.plaintext.gssapi.sasl.jaas.config": login_settings(keys, f"kafka/{HOST}"),
        "connections.max.reauth.ms": "3000",
    }
    with Cluster(settings, port=port, fork=False) as cluster:
        yield cluster


@pytest.fixture
def bootstrap(cluster: Cluster) -> str:
    return f"{HOST}:{cluster.bootstrap_servers.rpartition(':')[2]}"


@pytest.fixture
def topic() -> str:
    return f"kerberos-{uuid.uuid4().hex}"


@pytest.fixture
def tickets(kdc: Kdc, ann_keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tickets where clients that have no settings for these look for them."""
    cache = kdc.home / "ann.tickets"
    kdc.kinit(ann_keys, "ann", cache)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")


def properties(jaas: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": jaas,
    }


def file_of(directory: Path, jaas: str) -> Path:
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties(jaas).items()))
    return path


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_the_java_client(
    kafka_libs: Path, bootstrap: str, ann_keys: Path, topic: str, tmp_path: Path
) -> None:
    by_java(kafka_libs, bootstrap, file_of(tmp_path, login_settings(ann_keys, "ann")), topic)


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_the_java_client_keeps_its_session(
    kafka_libs: Path, cluster: Cluster, bootstrap: str, ann_keys: Path, topic: str, tmp_path: Path
) -> None:
    """It logs in again on the same connections, for twice the time of a session."""
    config = file_of(tmp_path, login_settings(ann_keys, "ann"))
    words = ["--topic", topic, "--num-records", "700", "--throughput", "100", "--record-size", "10"]
    words += ["--bootstrap-server", bootstrap, "--command-config", str(config)]
    printed = run_java(kafka_libs, "org.apache.kafka.tools.ProducerPerformance", *words)
    assert "700 records sent" in printed
    assert "session has ended" not in cluster.node(1).log_tail()


def test_aiokafka(bootstrap: str, tickets: None, topic: str) -> None:
    settings = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": HOST,
    }
    by_aiokafka(settings, topic)


def test_kafka_python(bootstrap: str, tickets: None, topic: str) -> None:
    settings = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": HOST,
    }
    by_kafka_python(settings, topic)


def test_librdkafka_with_the_settings_that_commands_make(
    bootstrap: str, kdc: Kdc, ann_keys: Path, topic: str
) -> None:
    """The wheels of confluent-kafka are built without GSSAPI, but Debian's kcat is not."""
    kcat = shutil.which("kcat")
    if (
        kcat is None
        or "sasl_gssapi" not in subprocess.run([kcat, "-V"], capture_output=True, text=True).stdout
    ):
        pytest.skip("kcat with GSSAPI not found: the system's packages kcat, libsasl2-modules-gssapi-mit")
    made = kerberos_of(kerberos_settings(login_settings(ann_keys, "ann"), "kafka"))
    made |= {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    words = [word for name, value in made.items() for word in ("-X", f"{name}={value}")]
    command = [kcat, "-b", bootstrap, "-t", topic, "-q", *words]
    lines = "".join(f"value {number}\n" for number in range(COUNT))
    subprocess.run([*command, "-P"], input=lines, text=True, check=True, timeout=60)
    read = subprocess.run([*command, "-C", "-e"], capture_output=True, text=True, check=True, timeout=60)
    assert read.stdout == lines


def test_commands_that_need_another_librdkafka_say_so(ann_keys: Path) -> None:
    with pytest.raises(ValueError, match="GSSAPI: this command uses librdkafka, which was built without it"):
        for_librdkafka(properties(login_settings(ann_keys, "ann")))


def test_our_own_client(kdc: Kdc, bootstrap: str, ann_keys: Path) -> None:
    config = ClientConfig.from_properties(
        {**properties(login_settings(ann_keys, "ann")), "bootstrap.servers": bootstrap}
    )
    with Client(config) as client:
        client.refresh([])


@pytest.mark.parametrize(
    ("keys_of", "service", "reason"),
    [
        ("nobody", "kafka", "cannot log in at localhost:[0-9]+ by GSSAPI: no ticket for kafka@localhost"),
        ("ann", "http", "no ticket for http@localhost: Server http/localhost@.* not found"),
        (
            "ann",
            "other",
            "localhost:[0-9]+: ann@.* is not authenticated by GSSAPI: Authentication failed during "
            "authentication due to invalid credentials with SASL mechanism GSSAPI",
        ),
    ],
)
def test_our_own_client_says_why_it_is_not_let_in(
    kdc: Kdc, bootstrap: str, ann_keys: Path, keys_of: str, service: str, reason: str
) -> None:
    if service == "other":
        kdc.admin(f"addprinc -randkey other/{HOST}")
    config = ClientConfig.from_properties(
        {
            **properties(login_settings(ann_keys, keys_of)),
            "sasl.kerberos.service.name": service,
            "bootstrap.servers": bootstrap,
        }
    )
    with pytest.raises(AuthenticationFailed, match=reason), Client(config) as client:
        client.refresh([])
