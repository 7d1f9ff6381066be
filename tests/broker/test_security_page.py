"""The properties and commands of docs/security.md about TLS and SASL, on nodes of their own."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import javaproperties
import pytest

from certificates import Authority
from in_process import run, running_node
from issuer import Issuer, IssuerServer
from kafka_node import free_port
from kdc import REALM, Kdc
from penstock.broker.node import Broker
from penstock.registry.api.server import RegistryServer

PAGE: Final = Path(__file__).parents[2] / "docs" / "security.md"
ON_THE_PAGE: Final = "/etc/penstock/"
COMMAND_TIMEOUT_S: Final = 60


def blocks(section: str, kind: str) -> list[str]:
    """The code blocks of one kind in a section of the page."""
    text = re.split(r"^#+ ", PAGE.read_text(), flags=re.MULTILINE)
    (found,) = [part for part in text if part.startswith(section + "\n")]
    return re.findall(rf"```{kind}\n(.*?)```", found, re.DOTALL)


def commands(section: str) -> list[str]:
    return re.findall(r"^\$ (.*)$", "\n".join(blocks(section, "console")), re.MULTILINE)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The files that the page names, with the page's names."""
    authority = Authority(tmp_path / "authority")
    shutil.copy(authority.server.store, tmp_path / "broker.pem")
    shutil.copy(authority.certificate, tmp_path / "authority.pem")
    renewed = authority.issue("server", "127.0.0.1", "localhost")
    shutil.copy(renewed.store, tmp_path / "renewed.pem")
    shutil.copy(authority.client.store, tmp_path / "client.pem")
    shutil.copy(authority.server.store, tmp_path / "registry.pem")
    return tmp_path


def properties(files: Path, *sections: str) -> dict[str, str]:
    return parsed(files, "".join("".join(blocks(section, "properties")) for section in sections))


def parsed(files: Path, text: str) -> dict[str, str]:
    text = text.replace(ON_THE_PAGE, f"{files}/").replace("0.0.0.0:9093", "127.0.0.1:0")
    return dict(javaproperties.loads(text.replace("broker.example:9093", "localhost:0")))


def shell(files: Path, broker: Broker, command: str) -> str:
    """Run a command of the page; it must succeed. Returns what it prints."""
    (listener,) = broker.config.broker_listeners
    host, port = broker.advertised(listener.name)
    line = command.replace(ON_THE_PAGE, f"{files}/").replace("broker.example:9093", f"{host}:{port}")
    return run_shell(files, line, f"{host}:{port}")


def run_shell(files: Path, line: str, bootstrap: str) -> str:
    """Run a line of a shell; it must succeed. Returns what it prints."""
    done = subprocess.run(
        ["sh", "-c", f'penstock() {{ "{sys.executable}" -m penstock "$@"; }}; {line}'],
        cwd=files,
        env={**os.environ, "PENSTOCK_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def started_node(files: Path, command: str, port: int) -> Iterator[None]:
    """Run a `penstock start` of the page, which listens on ``port``."""
    words = [sys.executable, "-m", *command.split()]
    with (files / "node.log").open("ab") as log:
        process = subprocess.Popen(words, cwd=files, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        said = process.stdout.readline().decode()
        assert f":{port}" in said, f"{said}{(files / 'node.log').read_text()}"
        yield
    finally:
        process.terminate()
        process.communicate(timeout=COMMAND_TIMEOUT_S)


def test_ten_commands_close_a_node(tmp_path: Path) -> None:
    section = "From an open node to a closed one"
    steps, (closed, admin) = commands(section), blocks(section, "properties")
    assert len(steps) == 10
    open_port, closed_port = free_port(), free_port()

    def here(text: str) -> str:
        """A text of the page with the names and ports of this machine."""
        named = text.replace("broker.example", "localhost")
        return named.replace("0.0.0.0:9093", f"127.0.0.1:{closed_port}").replace(":9093", f":{closed_port}")

    for user in ("admin", "broker", "alice"):
        (tmp_path / f"{user}.password").write_text(f"{user}-secret\n")
    (tmp_path / "closed.properties").write_text(here(closed))
    (tmp_path / "admin.properties").write_text(admin)
    (tmp_path / "alice.properties").write_text(admin.replace("admin", "alice"))

    def run_all(lines: list[str]) -> None:
        for line in lines:
            run_shell(tmp_path, here(line), f"127.0.0.1:{open_port}")

    at_first, at_last = (at for at, step in enumerate(steps) if step.startswith("penstock start"))
    with started_node(tmp_path, f"{steps[at_first]} --listen 127.0.0.1:{open_port}", open_port):
        run_all(steps[at_first + 1 : at_last])
    with started_node(tmp_path, steps[at_last], closed_port):
        run_all(steps[at_last + 1 :])
        client = f"--bootstrap localhost:{closed_port} --command-config alice.properties"
        run_all([f"penstock consume orders --from-beginning --max-messages 1 --group billing {client}"])
        with pytest.raises(AssertionError, match="TOPIC_AUTHORIZATION_FAILED"):
            run_all([f"penstock topic create others {client}"])


def test_a_node_encrypts_and_takes_new_certificates(files: Path) -> None:
    async def story() -> None:
        async with running_node(files / "node", **properties(files, "Encrypt connections")) as broker:
            for command in commands("Encrypt connections"):
                await asyncio.to_thread(shell, files, broker, command)
            (replace,) = commands("Replace certificates")
            await asyncio.to_thread(shell, files, broker, f"{replace} --command-config client.properties")

    run(story())


def test_a_registry_knows_users_and_their_roles(files: Path) -> None:
    settings, users = blocks("The HTTP servers", "properties")
    (files / "users").write_text(users)
    (certificates,) = blocks("Certificates instead of passwords", "properties")
    text = (settings + certificates).replace("https://0.0.0.0:8081", "https://127.0.0.1:0")
    given = parsed(files, text.replace("registry.example", "localhost"))

    async def story() -> None:
        async with running_node(files / "node") as broker:
            (listener,) = broker.config.broker_listeners
            host, port = broker.advertised(listener.name)
            servers = {"kafkastore.bootstrap.servers": f"{host}:{port}"}
            registry = RegistryServer({**servers, **given})
            await asyncio.to_thread(registry.start)
            try:
                printed = ""
                for command in commands("The HTTP servers"):
                    line = command.replace("https://registry.example:8081", registry.url)
                    printed = await asyncio.to_thread(shell, files, broker, line)
                assert "orders-value" in printed
                with pytest.raises(AssertionError, match="User is denied operation Write"):
                    await asyncio.to_thread(
                        shell,
                        files,
                        broker,
                        "penstock schema register other order.avsc --registry alice.properties",
                    )
            finally:
                await asyncio.to_thread(registry.close)

    run(story())


def test_a_node_knows_clients_by_their_certificates(files: Path) -> None:
    sections = ("Encrypt connections", "Clients with certificates")

    async def story() -> None:
        settings = {**properties(files, *sections), "super.users": "User:client"}
        authorizer = properties(files, "Decide who may do what")["authorizer.class.name"]
        settings["authorizer.class.name"] = authorizer
        async with running_node(files / "node", **settings) as broker:
            own = f"ssl.keystore.location={files}/client.pem\\n"
            *properties_of_client, create = commands("Encrypt connections")
            own_key = f"printf 'ssl.keystore.type=PEM\\n{own}' >> client.properties"
            for command in (*properties_of_client, own_key, create):
                await asyncio.to_thread(shell, files, broker, command)

    run(story())


def test_clients_log_in_with_tokens(files: Path) -> None:
    of_node, of_admin = blocks("Users with passwords", "properties")
    secret, of_token = blocks("Delegation tokens", "properties")
    (files / "client.properties").write_text(of_admin.replace(ON_THE_PAGE, f"{files}/"))
    settings = {**properties(files, "Encrypt connections"), **parsed(files, of_node + secret)}
    create, listed, renew, expire = commands("Delegation tokens")

    async def story() -> None:
        async with running_node(files / "node", **settings) as broker:

            async def run_it(command: str) -> str:
                line = f"{command} --command-config client.properties"
                return await asyncio.to_thread(shell, files, broker, line)

            lines = dict(line.split(": ", 1) for line in (await run_it(create)).splitlines())
            assert lines["token id"] in await run_it(listed)
            login = of_token.replace("TOKEN-ID", lines["token id"]).replace("HMAC", lines["hmac"])
            (files / "token.properties").write_text(login.replace(ON_THE_PAGE, f"{files}/"))
            by_token = "penstock txn list --command-config token.properties"
            assert "PRODUCER ID" in await asyncio.to_thread(shell, files, broker, by_token)
            for command in (renew, expire):
                assert "expires: 20" in await run_it(command.replace("TOKEN-ID", lines["token id"]))

    run(story())


def test_clients_log_in_with_tickets(files: Path, kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    of_node, of_client = blocks("Kerberos", "properties")
    kdc.add("kafka/localhost").rename(files / "broker.keytab")
    kdc.kinit(kdc.add("alice"), "alice", files / "tickets")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{files / 'tickets'}")
    (files / "client.properties").write_text(of_client.replace(ON_THE_PAGE, f"{files}/"))
    of_node = of_node.replace("broker.example@EXAMPLE.COM", f"localhost@{REALM}")
    settings = {**properties(files, "Encrypt connections"), **parsed(files, of_node)}

    async def story() -> None:
        async with running_node(files / "node", **settings) as broker:
            (listener,) = broker.config.broker_listeners
            _host, port = broker.advertised(listener.name)
            line = "penstock txn list --command-config client.properties"
            assert "PRODUCER ID" in await asyncio.to_thread(run_shell, files, line, f"localhost:{port}")

    run(story())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_node_knows_users_by_their_passwords(
    files: Path, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_node, of_client = blocks("Users with passwords", "properties")
    (files / "client.properties").write_text(of_client.replace(ON_THE_PAGE, f"{files}/"))
    (files / "secrets.properties").write_text("broker=broker-secret\n")
    monkeypatch.setenv("ADMIN_PASSWORD", "admin-secret")
    settings = {
        **properties(files, "Encrypt connections"),
        **parsed(files, of_node),
        **(properties(files, "Keep passwords elsewhere") if elsewhere else {}),
        **properties(files, "Decide who may do what"),
    }
    create, listed, delete = commands("Users of SCRAM")[:3]

    async def story() -> None:
        async with running_node(files / "node", **settings) as broker:

            def run_it(command: str) -> str:
                return shell(files, broker, f"{command} --command-config client.properties")

            password = "ALICE=alice-secret"
            await asyncio.to_thread(run_it, f"export {password}; {create} --password-env ALICE")
            assert "alice" in await asyncio.to_thread(run_it, listed)
            for command in (*commands("Decide who may do what"), *commands("The rules")):
                await asyncio.to_thread(run_it, command)
            of_alice = (
                "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
                f"ssl.truststore.location={files}/authority.pem\n"
                "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
                'username="alice" password="alice-secret";\n'
            )
            (files / "alice.properties").write_text(of_alice)
            await asyncio.to_thread(
                shell, files, broker, "penstock topic list --command-config alice.properties"
            )
            await asyncio.to_thread(run_it, delete)

    run(story())


def test_a_node_knows_users_by_their_tokens(files: Path) -> None:
    of_node, of_client, unsecured = blocks("Bearer tokens", "properties")
    issuer = Issuer()
    issuer.key()

    async def story(server: IssuerServer) -> None:
        def with_issuer(text: str) -> str:
            return text.replace("https://issuer.example/", server.url("/"))

        (files / "client.properties").write_text(with_issuer(of_client).replace(ON_THE_PAGE, f"{files}/"))
        settings = {
            **properties(files, "Encrypt connections"),
            **parsed(files, with_issuer(of_node)),
            **properties(files, "Decide who may do what"),
        }
        async with running_node(files / "node", **settings) as broker:
            command = "penstock topic create orders --command-config client.properties"
            await asyncio.to_thread(shell, files, broker, command)
        async with running_node(files / "another", **settings, **parsed(files, unsecured)) as broker:
            (files / "client.properties").write_text(
                "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
                f"ssl.truststore.location={files}/authority.pem\n"
                "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
                'required unsecuredLoginStringClaim_sub="admin";\n'
            )
            await asyncio.to_thread(shell, files, broker, command)

    of_issuer = Authority(files / "of-issuer")
    with (files / "authority.pem").open("ab") as trusted:
        trusted.write(of_issuer.certificate.read_bytes())
    with IssuerServer(issuer, of_issuer) as server:
        server.clients = {"broker": "broker-secret", "admin": "admin-secret"}
        run(story(server))
