"""Connections over the virtual network: bytes arrive whole, in order and late, or are lost."""

import asyncio
from random import Random

import pytest

from penstock.testing.simulator.loop import Machine, VirtualLoop
from penstock.testing.simulator.network import GIVE_UP_S, Network, VirtualSocket

SERVER = ("10.0.0.9", 9092)


class World:
    """A server that keeps what it receives, and a client connected to it."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = VirtualLoop(Random(seed))
        self.network = Network(self.loop, Random(seed))
        self.server: Machine = self.loop.machine("server", SERVER[0])
        self.received = bytearray()
        self.ended: str | None = None
        self.ended_s = 0.0
        self.accepted: VirtualSocket | None = None
        self.loop.on(self.server, self._listen)

    def _listen(self) -> None:
        listening = self.network.bind(*SERVER)
        listening.listen(1)
        self.loop.add_reader(listening.fileno(), self._accept, listening)

    def _accept(self, listening) -> None:
        self.accepted, _ = listening.accept()
        self.loop.add_reader(self.accepted.fileno(), self._read)

    def _read(self) -> None:
        assert self.accepted is not None
        buffer = memoryview(bytearray(50_000))
        try:
            count = self.accepted.recv_into(buffer)
        except OSError as error:
            self._end(type(error).__name__)
            return
        if not count:
            self._end("end")
        self.received += buffer[:count]

    def _end(self, how: str) -> None:
        self.ended, self.ended_s = how, self.loop.now_s
        self.loop.remove_reader(self.accepted.fileno())

    async def send(self, connection: VirtualSocket, data: bytes) -> None:
        while data:
            try:
                data = data[connection.send(data) :]
            except BlockingIOError:
                await asyncio.sleep(0.01)


def test_bytes_arrive_whole_in_order_and_later() -> None:
    world = World()
    world.network.weather.loss = 0.1
    data = bytes(Random(1).randbytes(1_000_000))

    async def story() -> None:
        await asyncio.sleep(0.1)
        connection = await world.network.connect(*SERVER)
        await asyncio.sleep(0.01)  # it is accepted
        await world.send(connection, data)
        assert world.received != data, "it takes time"
        connection.close()
        await asyncio.sleep(60)

    world.loop.run_until_complete(story())
    assert world.received == data
    assert world.ended == "end"


def test_what_is_sent_over_a_blocked_link_arrives_when_it_is_open_again() -> None:
    world = World()

    async def story() -> None:
        await asyncio.sleep(0.1)
        connection = await world.network.connect(*SERVER)
        await asyncio.sleep(0.01)  # it is accepted
        there = (connection.machine.host, SERVER[0])
        world.network.weather.blocked[there] = None
        connection.send(b"one")
        await asyncio.sleep(20)
        assert world.received == b""
        world.accepted.send(b"back")  # only one direction is blocked
        await asyncio.sleep(1)
        buffer = memoryview(bytearray(10))
        assert buffer[: connection.recv_into(buffer)] == b"back"
        del world.network.weather.blocked[there]
        connection.send(b"two")
        await asyncio.sleep(3)
        assert world.received == b"onetwo"

    world.loop.run_until_complete(story())


def test_who_hears_nothing_gives_up_at_last() -> None:
    world = World()

    async def story() -> None:
        await asyncio.sleep(0.1)
        connection = await world.network.connect(*SERVER)
        await asyncio.sleep(0.01)  # it is accepted
        world.network.power_lost(world.server)
        connection.send(b"one")
        await asyncio.sleep(GIVE_UP_S / 2)
        with pytest.raises(BlockingIOError):
            connection.recv_into(memoryview(bytearray(10)))
        await asyncio.sleep(GIVE_UP_S)
        with pytest.raises(TimeoutError):
            connection.recv_into(memoryview(bytearray(10)))
        with pytest.raises(TimeoutError):
            await world.network.connect(*SERVER)

    world.loop.run_until_complete(story())


def test_a_process_that_dies_ends_its_connections() -> None:
    world = World()

    async def story() -> None:
        await asyncio.sleep(0.1)
        connection = await world.network.connect(*SERVER)
        await asyncio.sleep(0.01)  # it is accepted
        world.accepted.send(b"last words")
        world.network.process_died(world.server)
        await asyncio.sleep(1)
        buffer = memoryview(bytearray(20))
        assert buffer[: connection.recv_into(buffer)] == b"last words"
        assert connection.recv_into(buffer) == 0
        with pytest.raises(ConnectionRefusedError):
            await world.network.connect(*SERVER)
        connection.send(b"anybody there?")
        await asyncio.sleep(1)
        with pytest.raises(ConnectionResetError):
            connection.send(b"hello?")

    world.loop.run_until_complete(story())


def test_a_connection_that_is_cut_is_reset_on_both_sides() -> None:
    world = World()

    async def story() -> None:
        await asyncio.sleep(0.1)
        connection = await world.network.connect(*SERVER)
        await asyncio.sleep(0.01)  # it is accepted
        world.network.cut(connection)
        await asyncio.sleep(1)
        assert world.ended == "ConnectionResetError"
        with pytest.raises(ConnectionResetError):
            connection.send(b"one")

    world.loop.run_until_complete(story())
