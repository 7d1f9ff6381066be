"""`/healthz` and `/readyz` of a node, and what its metrics show of disks."""

import asyncio
import errno
import threading
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import confluent_kafka
import pytest

from in_process import create, run, running_node
from penstock.broker.control.lifecycle import BrokerState
from penstock.broker.metrics.probes import liveness_problem, missing, readiness_problem
from penstock.broker.metrics.server import BrokerCollector
from penstock.broker.node import Broker
from penstock.broker.quorum.quorum import Quorum
from penstock.metadata.configs import BrokerConfig


def test_a_running_node_is_ready(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            assert missing(broker) is None
            assert await broker.run_in_worker(liveness_problem, broker.loop) is None
            assert await broker.run_in_worker(readiness_problem, broker) is None

    run(story())


def test_a_node_that_lacks_something_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            own = broker.image.brokers[broker.node_id]
            broker.image.brokers[broker.node_id] = replace(own, fenced=True)
            assert missing(broker) == "the controller has fenced the broker"
            broker.image.brokers[broker.node_id] = own

            offset = broker.image.offset
            broker.image.offset -= 1
            assert (
                missing(broker)
                == f"the metadata log was applied up to offset {offset}: expected {offset + 1}"
            )
            broker.image.offset = offset

            with monkeypatch.context() as patch:
                patch.setattr(Quorum, "leader_id", None)
                assert missing(broker) == "no leader of the metadata quorum is known"
            with monkeypatch.context() as patch:
                patch.setattr(broker.quorum, "failure", "the disk is gone")
                assert missing(broker) == "the metadata log cannot be followed: the disk is gone"

            for state in BrokerState:
                with monkeypatch.context() as patch:
                    patch.setattr(broker.lifecycle, "state", state)
                    assert (missing(broker) is None) == (state is BrokerState.RUNNING), state

            broker.server.close(["PLAINTEXT"])
            assert missing(broker) == "the listeners do not accept connections yet"

    run(story())


def test_a_node_that_starts_is_healthy_and_not_ready(tmp_path: Path) -> None:
    """The metrics can be read before anything is recovered."""

    async def story() -> None:
        config = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        broker = Broker(BrokerConfig.single_node(config))
        assert missing(broker) == "the broker starts"
        assert {family.name for family in BrokerCollector(broker).collect()} >= {"penstock_requests"}
        await broker.start()
        await broker.stop()

    run(story())


def test_a_node_that_stops_is_healthy_and_not_ready_until_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, str]] = []

    async def story() -> None:
        async with running_node(tmp_path, **{"penstock.metrics.port": "0"}) as broker:
            assert broker.monitoring is not None
            port = broker.monitoring.port
            assert await broker.run_in_worker(answer, port, "/readyz") == (200, "ok\n")
            shut_down, close_logs = broker.lifecycle.shut_down, broker.logs.close

            async def begin() -> None:
                seen.append(await broker.run_in_worker(answer, port, "/readyz"))
                await shut_down()

            def end(last_epoch: int) -> None:
                seen.extend((answer(port, "/readyz"), answer(port, "/healthz")))
                assert answer(port, "/metrics")[0] == 200
                close_logs(last_epoch)

            monkeypatch.setattr(broker.lifecycle, "shut_down", begin)
            monkeypatch.setattr(broker.logs, "close", end)
        with pytest.raises(URLError):
            answer(port, "/healthz")

    run(story())
    assert seen == [(503, "the node shuts down\n"), (503, "the broker shuts down\n"), (200, "ok\n")]


def answer(port: int, path: str) -> tuple[int, str]:
    """The status and the text of an answer of the server of metrics and probes."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_a_loop_that_stands_still_is_not_healthy() -> None:
    loop = asyncio.new_event_loop()
    try:
        assert liveness_problem(loop, 0.01) == "the event loop has not answered for 0.01 s"
        running = threading.Thread(target=loop.run_forever)
        running.start()
        assert liveness_problem(loop) is None
        loop.call_soon_threadsafe(loop.stop)
        running.join(60)
    finally:
        loop.close()
    assert liveness_problem(loop) == "the event loop is closed"


def test_a_full_disk_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def values(broker: Broker) -> dict[str, float]:
        return {
            " ".join([sample.name, *sample.labels.values()]): sample.value
            for family in BrokerCollector(broker).collect()
            for sample in family.samples
        }

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, "orders")
            before = values(broker)
            free, total = (before[f"penstock_log_directory_{n}_bytes {tmp_path}"] for n in ("free", "total"))
            assert 0 < free <= total
            assert before[f"penstock_log_write_failures_total {tmp_path}"] == 0
            replica = broker.replicas.get("orders", 0)
            assert replica is not None

            def fail(*_: object) -> None:
                raise OSError(errno.ENOSPC, "No space left on device")

            with monkeypatch.context() as patch:
                patch.setattr(type(replica.log.segments.active), "append", fail)
                address = f"127.0.0.1:{broker.advertised('PLAINTEXT')[1]}"
                errors = await broker.run_in_worker(produced_errors, address)
            assert errors == [confluent_kafka.KafkaError.KAFKA_STORAGE_ERROR]
            after = values(broker)
            assert after["penstock_refused_appends_total KAFKA_STORAGE_ERROR"] == 1
            assert after[f"penstock_log_write_failures_total {tmp_path}"] == 1
            assert after["penstock_log_directories_offline"] == 0

    run(story())


def produced_errors(address: str) -> list[int]:
    """The error codes of one record that is not retried."""
    codes: list[int] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "retries": 0})
    producer.produce("orders", b"x", on_delivery=lambda error, _: error and codes.append(error.code()))
    producer.flush(30)
    return codes
