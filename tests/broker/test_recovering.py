"""A node that recovers its logs: clients are refused at once, and probes say why."""

import asyncio
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from broker_wire import batch_of
from in_process import create, run, running_node
from penstock.broker.node import Broker, CannotStart
from penstock.metadata.configs import BrokerConfig
from penstock.storage.directories.log_manager import LogManager
from penstock.storage.errors import LogDirectoryError


def node_in(directory: Path, port: int = 0) -> Broker:
    settings = {
        "log.dirs": str(directory),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "penstock.metrics.port": "0",
    }
    return Broker(BrokerConfig.single_node(settings))


def answer_of(broker: Broker, path: str) -> tuple[int, str]:
    assert broker.monitoring is not None
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{broker.monitoring.port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def connect(broker: Broker) -> None:
    socket.create_connection(broker.advertised("PLAINTEXT"), timeout=60).close()


def test_connections_are_refused_until_a_node_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recovering, may_end = threading.Event(), threading.Event()
    load_logs = Broker._load_logs

    def recover(broker: Broker) -> None:
        recovering.set()
        may_end.wait(60)
        load_logs(broker)

    monkeypatch.setattr(Broker, "_load_logs", recover)

    async def story() -> None:
        broker = node_in(tmp_path)
        ask = broker.run_in_worker
        starting = broker.loop.create_task(broker.start())
        try:
            assert await ask(recovering.wait, 60)
            with pytest.raises(ConnectionRefusedError):
                await ask(connect, broker)
            assert await ask(answer_of, broker, "/healthz") == (200, "ok\n")
            status, reason = await ask(answer_of, broker, "/readyz")
            assert (status, "recovers its logs" in reason) == (503, True)
            status, _ = await ask(answer_of, broker, "/metrics")
            assert status == 200
        finally:
            may_end.set()
        await starting
        await ask(connect, broker)
        assert await ask(answer_of, broker, "/readyz") == (200, "ok\n")
        await broker.stop()

    run(story())


def test_a_port_that_another_process_took_meanwhile_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", 0))
            port = other.getsockname()[1]
            broker = node_in(tmp_path, port)
            broker.server.bind(broker.config.listeners)
            other.listen()
            with pytest.raises(
                OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"
            ):
                broker.server.accept(["PLAINTEXT"])
            broker.logs.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    "taken",
    [{"listeners": "PLAINTEXT://127.0.0.1:{port}"}, {"penstock.metrics.port": "{port}"}, {}],
    ids=["a listener", "the metrics", "logs that cannot be opened"],
)
def test_a_node_that_cannot_start_gives_its_directory_up(
    tmp_path: Path, taken: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node of the same process can start there, with the records of before."""

    def fail(*_: object) -> None:
        raise LogDirectoryError("not today")

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, "t")
            broker.replicas.append("t", 0, batch_of(b"kept"))
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            properties = {name: value.format(port=port) for name, value in taken.items()}
            if not taken:
                monkeypatch.setattr(LogManager, "load", fail)
            with pytest.raises(CannotStart, match=r"not today|cannot listen|cannot serve metrics"):
                async with running_node(tmp_path, **properties):
                    pass
        monkeypatch.undo()
        async with running_node(tmp_path) as broker:
            assert broker.replicas.leader("t", 0).log.log_end_offset == 1

    run(story())


def test_a_port_in_use_is_named_before_the_node_recovers(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            with pytest.raises(CannotStart, match=f"cannot listen on 127.0.0.1:{port}"):
                await node_in(tmp_path, port).start()

    run(story())
