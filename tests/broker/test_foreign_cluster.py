"""A node formatted for one cluster and pointed at another names both, and the source of each."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.broker.node import Broker, CannotStart
from penstock.broker.setup.environment import Environment
from penstock.metadata.configs import BrokerConfig
from penstock.storage.directories import meta_properties
from waiting import until

HERE, ELSEWHERE = "iWKQh-fZRQyPCSDH4Og5Gw", "Uwk5Kp8JQ2m0Jd4O2s0v7g"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def node(directory: Path, cluster_id: str, role: str, listener: str, **properties: str) -> Broker:
    directory.mkdir()
    node_id = 1 if cluster_id == HERE else 2
    meta_properties.claim(Environment().files, [directory], node_id, cluster_id)
    return Broker(
        BrokerConfig.from_properties(
            {
                "process.roles": role,
                "node.id": str(node_id),
                "log.dirs": str(directory),
                "listeners": listener,
                "controller.listener.names": "CONTROLLER",
                **properties,
            }
        )
    )


@asynccontextmanager
async def controller(directory: Path) -> AsyncIterator[int]:
    """Run a controller of the cluster ``HERE`` and return its port."""
    port = free_port()
    listener = f"CONTROLLER://127.0.0.1:{port}"
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{port}"}
    running = node(directory, HERE, "controller", listener, **voters)
    await running.start()
    try:
        yield port
    finally:
        await running.stop()


def test_a_broker_of_another_cluster_says_so_when_it_gives_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def scenario() -> None:
        async with controller(tmp_path / "here") as port:
            broker = node(
                tmp_path / "elsewhere",
                ELSEWHERE,
                "broker",
                "PLAINTEXT://127.0.0.1:0",
                **{"initial.broker.registration.timeout.ms": "2000"},
                **{"controller.quorum.voters": f"1@127.0.0.1:{port}"},
            )
            with pytest.raises(CannotStart) as refused:
                await broker.start()
            await broker.stop()
            said = str(refused.value)
            assert f"127.0.0.1:{port} belongs to cluster {HERE}" in said
            assert f"this node to cluster {ELSEWHERE} by {tmp_path}/elsewhere/meta.properties" in said
            assert "controller.quorum.voters names" in said

    asyncio.run(asyncio.wait_for(scenario(), 60))
    errors = [r for r in caplog.records if "belongs to cluster" in r.message and r.levelno == logging.ERROR]
    assert len(errors) == 1, "not once for each request"
    (seen,) = [r.message for r in caplog.records if "a node of another cluster sends" in r.message]
    assert ELSEWHERE in seen
    assert f"own_cluster_id={HERE} own_properties={tmp_path}/here/meta.properties" in seen


def test_a_controller_of_another_cluster_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Like Kafka's, an observer that wants to join keeps waiting; the message is in its log."""
    caplog.set_level(logging.WARNING)

    async def scenario() -> None:
        async with controller(tmp_path / "here") as port:
            listener = f"CONTROLLER://127.0.0.1:{free_port()}"
            foreign = node(
                tmp_path / "elsewhere",
                ELSEWHERE,
                "controller",
                listener,
                **{"controller.quorum.bootstrap.servers": f"127.0.0.1:{port}"},
            )
            await foreign.start()
            await until(lambda: foreign.quorum.problem is not None)
            assert (
                f"belongs to cluster {HERE}, but this node to cluster {ELSEWHERE}" in foreign.quorum.problem
            )
            await foreign.stop()

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert any(ELSEWHERE in r.message and r.levelno == logging.ERROR for r in caplog.records)
