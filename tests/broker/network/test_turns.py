"""However much clients pipeline, a turn of the event loop handles a bounded number of requests.

However many connections there are, a turn ends when its time is over, and the other connections wait.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from penstock.broker.network import turns as turns_module
from penstock.broker.network.connection import REQUESTS_PER_TURN, Connection, Reply
from penstock.broker.network.loop_lag import TurnSelector
from penstock.broker.network.server import HandleRequest
from penstock.broker.network.turns import TURN_NS_MAX, Line, line_of
from penstock.broker.node import Broker
from penstock.metadata.configs import BrokerConfig

REQUESTS = 20_000
API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def flood(address: tuple[str, int], answered: list[int]) -> None:
    """Send all requests as fast as the node takes them, and count the bytes that come back."""
    with socket.create_connection(address) as sock:
        sender = threading.Thread(target=sock.sendall, args=(API_VERSIONS_V0 * REQUESTS,))
        sender.start()
        received = 0
        size = 0
        while not size or received < size * REQUESTS:
            data = sock.recv(1 << 20)
            if not size:
                size = 4 + struct.unpack(">i", data[:4])[0]
            received += len(data)
        sender.join()
        answered.append(received // size)


def test_a_flood_is_taken_in_turns(tmp_path: Path) -> None:
    handled = [0]
    turns: list[int] = []

    async def serve() -> list[int]:
        config = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        broker = Broker(BrokerConfig.single_node(config))
        address = await broker.start()
        handler_of = broker.server._handler_of

        def counted(listener_name: str) -> HandleRequest:
            handle = handler_of(listener_name)

            def count_and_handle(connection: Connection, frame: memoryview) -> Reply:
                handled[0] += 1
                return handle(connection, frame)

            return count_and_handle

        broker.server._handler_of = counted
        answered: list[int] = []
        await asyncio.gather(*(asyncio.to_thread(flood, address, answered) for _ in range(2)))
        await broker.stop()
        return answered

    class CountedTurns(TurnSelector):
        def select(self, timeout: float | None = None):  # type: ignore[no-untyped-def]
            turns.append(handled[0])
            handled[0] = 0
            return super().select(timeout)

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(CountedTurns())) as runner:
        assert runner.run(serve()) == [REQUESTS, REQUESTS]
    assert sum(turns) == 2 * REQUESTS
    # for each connection the rest of the earlier read, then newer data
    assert max(turns) <= 2 * 2 * REQUESTS_PER_TURN


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop whose clock advances by a third of a turn at each reading."""
    monkeypatch.setattr(turns_module, "_now_ns", count(step=TURN_NS_MAX // 3 + 1).__next__)
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def line(loop: asyncio.AbstractEventLoop) -> Line:
    return line_of(loop)


def turns_of(loop: asyncio.AbstractEventLoop, expected: int, served: list[str]) -> list[list[str]]:
    """The connections served in each turn of the loop, until this many were served."""
    turns = []

    async def count_turns() -> None:
        before = 0
        while before < expected:
            turns.append(served[before:])
            before = len(served)
            await asyncio.sleep(0)

    loop.run_until_complete(count_turns())
    return turns


def test_who_finds_a_turn_full_is_served_in_the_next_in_order(
    loop: asyncio.AbstractEventLoop, line: Line
) -> None:
    served: list[str] = []
    for name in "abcdefgh":
        line.wait(lambda name=name: served.append(name))  # type: ignore[misc]
    assert turns_of(loop, 8, served) == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]


def test_who_comes_again_waits_behind_the_others(loop: asyncio.AbstractEventLoop, line: Line) -> None:
    served: list[str] = []

    def greedy() -> None:
        served.append("greedy")
        line.wait(greedy)

    line.wait(greedy)
    for name in "abcd":
        line.wait(lambda name=name: served.append(name))  # type: ignore[misc]
    assert turns_of(loop, 7, served) == [["greedy", "a", "b"], ["c", "d", "greedy"], ["greedy"]]
