"""Limits on the number of connections and on how fast new ones come."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from in_process import run, running_node
from penstock.broker.node import Broker
from penstock.broker.quotas import connections
from penstock.broker.quotas.address_rates import address_of, resolved_rates
from penstock.broker.quotas.connections import ConnectionLimits, ConnectionQuotas, ListenerLimits
from penstock.broker.quotas.rate import Window
from penstock.metadata.image.client_quotas import (
    CONNECTION_CREATION_RATE,
    client_quota_entity,
    client_quota_record,
)
from penstock.testing.simulator.layout import CLIENT_PORT, host_of
from penstock.testing.simulator.network import VirtualSocket
from virtual_time import VirtualNode, on_virtual_node
from waiting import until

WINDOW = Window(11, 1000)
CLIENTS, BROKERS = "CLIENTS", "BROKERS"


class Quotas:
    """The quotas of a client listener and one between brokers, with limits that a test changes."""

    def __init__(self, limits: ConnectionLimits, names: tuple[str, ...] = (CLIENTS, BROKERS)) -> None:
        self.limits = limits
        self.of = ConnectionQuotas(names, BROKERS, WINDOW, lambda: self.limits)


def test_the_listener_between_brokers_is_protected_from_the_limit_of_the_broker() -> None:
    quotas = Quotas(ConnectionLimits(max_connections=2)).of
    assert quotas.open(CLIENTS, "10.0.0.1")
    assert quotas.open(CLIENTS, "10.0.0.2")
    assert (quotas.has_slot(CLIENTS), quotas.has_slot(BROKERS), quotas.is_exceeded) == (False, True, False)
    assert quotas.open(BROKERS, "10.0.0.3")
    assert quotas.is_exceeded
    quotas.close(CLIENTS, "10.0.0.1")
    assert not quotas.has_slot(CLIENTS)
    quotas.close(CLIENTS, "10.0.0.2")
    assert quotas.has_slot(CLIENTS)


def test_a_single_listener_is_not_protected() -> None:
    quotas = Quotas(ConnectionLimits(max_connections=1), names=(BROKERS,)).of
    assert quotas.open(BROKERS, "10.0.0.1")
    assert not quotas.has_slot(BROKERS)


def test_a_listener_has_a_limit_of_its_own() -> None:
    limits = ConnectionLimits(listeners={BROKERS: ListenerLimits(max_connections=1)})
    quotas = Quotas(limits).of
    assert quotas.open(BROKERS, "10.0.0.1")
    assert (quotas.has_slot(BROKERS), quotas.has_slot(CLIENTS)) == (False, True)


def test_connections_of_an_address_have_a_limit() -> None:
    overrides = {"10.0.0.2": 1}
    quotas = Quotas(ConnectionLimits(max_connections_per_ip=2, max_connections_per_ip_overrides=overrides)).of
    assert [quotas.open(CLIENTS, "10.0.0.1") for _ in range(3)] == [True, True, False]
    assert [quotas.open(CLIENTS, "10.0.0.2") for _ in range(2)] == [True, False]
    quotas.close(CLIENTS, "10.0.0.2")
    assert quotas.open(CLIENTS, "10.0.0.2")
    assert quotas.connections_of("10.0.0.1") == 2


def test_a_rate_is_limited_for_a_sample_at_most() -> None:
    quotas = Quotas(ConnectionLimits(max_connection_creation_rate=2)).of
    waits_ms = [quotas.arrived(CLIENTS, 0) for _ in range(40)]
    # 20 in the first 10 s are within the rate; the next one is 1/20 of 10 s too early.
    assert waits_ms[:22] == [0] * 20 + [500, 1000]
    assert set(waits_ms[21:]) == {1000}
    assert quotas.listeners[CLIENTS].throttles == 20


def test_the_rate_of_the_broker_does_not_limit_brokers_and_that_of_a_listener_does() -> None:
    limits = ConnectionLimits(max_connection_creation_rate=1)
    quotas = Quotas(limits)
    for _ in range(20):
        assert quotas.of.arrived(BROKERS, 0) == 0
    quotas.limits = replace(limits, listeners={BROKERS: ListenerLimits(max_connection_creation_rate=1)})
    assert quotas.of.arrived(BROKERS, 0) == 1000
    assert quotas.of.arrived(CLIENTS, 0) == 0


def test_connections_that_an_address_makes_too_fast_count_for_no_rate() -> None:
    quotas = Quotas(ConnectionLimits(max_connection_creation_rate=2)).of
    quotas.limit_addresses({"10.0.0.1": 1})
    refused = 0
    for _ in range(40):
        assert quotas.arrived(CLIENTS, 0) == 0
        refused += quotas.address_throttle_ms(CLIENTS, "10.0.0.1", 0) > 0
    assert refused == 30
    assert quotas.listeners[CLIENTS].address_throttles == 30
    for _ in range(10):
        assert quotas.arrived(CLIENTS, 0) == 0
        assert quotas.address_throttle_ms(CLIENTS, "10.0.0.2", 0) == 0
    assert quotas.arrived(CLIENTS, 0) > 0


def test_addresses_without_a_rate_of_their_own_have_the_default() -> None:
    quotas = Quotas(ConnectionLimits()).of
    quotas.limit_addresses({None: 0, "10.0.0.1": 100})
    assert quotas.address_throttle_ms(CLIENTS, "10.0.0.1", 0) == 0
    assert quotas.address_throttle_ms(CLIENTS, "10.0.0.2", 0) == 1000


def test_the_memory_for_addresses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ADDRESSES_MAX", 10)
    quotas = Quotas(ConnectionLimits()).of
    quotas.limit_addresses({None: 5})
    for number in range(100):
        quotas.address_throttle_ms(CLIENTS, f"10.0.0.{number}", 0)
    assert len(quotas._addresses) == 10


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("localhost", "localhost"),
    ],
)
def test_addresses_are_compared_in_the_shortest_form(text: str, address: str) -> None:
    assert address_of(text) == address


def test_hosts_are_resolved_and_unknown_ones_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert resolved_rates({"localhost": 3, "no-such-host.invalid": 1})["127.0.0.1"] == 3
    assert "host=no-such-host.invalid" in caplog.text


# On a node


def limit_address(broker: Broker, ip: str | None, rate: float) -> None:
    """Commit a quota of an address, as the metadata log does."""
    record = client_quota_record(client_quota_entity({"ip": ip}), CONNECTION_CREATION_RATE, rate)
    broker.image.client_quotas.replay(record)
    for watcher in broker.metadata._watchers:
        watcher.committed(0)


async def connect(node: VirtualNode) -> VirtualSocket:
    return await node.cluster.settings.network.connect(host_of(1), CLIENT_PORT)


def is_closed(sock: VirtualSocket) -> bool:
    try:
        return sock.recv_into(memoryview(bytearray(1))) == 0
    except BlockingIOError:
        return False


def on_node(directory: Path, story: Callable[[VirtualNode], Awaitable[None]], **properties: str) -> None:
    on_virtual_node(directory, story, **properties)


def test_a_listener_waits_once_its_rate_is_reached(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        stats = node.broker.server.stats
        for _ in range(40):
            await connect(node)
        await asyncio.sleep(0.1)
        assert stats.accepted == 20
        await asyncio.sleep(5)
        assert 20 < stats.accepted < 30
        await asyncio.sleep(60)
        assert stats.accepted == 40

    on_node(tmp_path, story, max_connection_creation_rate="2")


def test_connections_over_the_rate_of_their_address_are_closed_after_a_while(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        limit_address(node.broker, None, 1)
        sockets = [await connect(node) for _ in range(13)]
        await asyncio.sleep(0.3)
        assert node.broker.server.stats.accepted == 10
        assert not any(map(is_closed, sockets))
        await asyncio.sleep(1.2)
        assert list(map(is_closed, sockets)) == [False] * 10 + [True] * 3

    on_node(tmp_path, story)


def test_a_broker_displaces_the_client_that_was_idle_the_longest(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT",
            "max.connections": "2",
        }
        async with running_node(tmp_path, **settings) as broker:
            with contextlib.ExitStack() as opened:

                def connect_to(listener: str) -> socket.socket:
                    address = broker.advertised(listener)
                    return opened.enter_context(socket.create_connection(address))

                first = connect_to("CLIENTS")
                await until(lambda: len(broker.server.connections) == 1)
                connect_to("CLIENTS")
                await until(lambda: len(broker.server.connections) == 2)
                connect_to("PLAINTEXT")
                await until(lambda: broker.server.stats.accepted == 3)
                await until(lambda: len(broker.server.connections) == 2)
                assert await asyncio.to_thread(first.recv, 1) == b""

    run(story())


def test_the_rate_of_a_host_reaches_its_addresses(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            limit_address(broker, "localhost", 0)
            of_broker = broker.connection_quotas[0]
            await until(lambda: "127.0.0.1" in of_broker._address_rates)
            with socket.create_connection(broker.advertised("PLAINTEXT")) as closed:
                assert await asyncio.to_thread(closed.recv, 1) == b""
            assert broker.server.stats.accepted == 0

    run(story())


def test_more_connections_are_accepted_once_the_limit_is_raised(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path, **{"max.connections": "1"}) as broker:
            with contextlib.ExitStack() as opened:
                for _ in range(2):
                    opened.enter_context(socket.create_connection(broker.advertised("PLAINTEXT")))
                await until(lambda: broker.server.stats.accepted == 1)
                limits = broker.server.limits
                raised = replace(limits.connections, max_connections=2, listeners={})
                broker.server.reconfigure(replace(limits, connections=raised))
                await until(lambda: broker.server.stats.accepted == 2)

    run(story())
