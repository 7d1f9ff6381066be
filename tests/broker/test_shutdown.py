"""A stop while handlers still process requests."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from broker_wire import Wire, batch_of
from penstock.broker.network.answers import Answer
from penstock.broker.network.dispatch import Dispatcher
from penstock.broker.network.served import Served, ServedApi
from penstock.broker.network.stats import ApiStats
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from waiting import wait_until

PRODUCE_VERSION = 8


def test_requests_at_work_end_before_the_logs_close() -> None:
    events: list[str] = []

    async def append_later() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            events.append("ended")

    async def stop() -> None:
        nothing: Any = None
        dispatcher = Dispatcher({}, nothing, nothing, nothing)
        connection: Any = SimpleNamespace(close=lambda *_: events.append("closed"))
        api = ServedApi(nothing, nothing, (3, 13), (0, 13))
        served = Served(ApiKey.PRODUCE, PRODUCE_VERSION, api, ApiStats())
        dispatcher._reply_later(served, 1, Answer.working(append_later()), connection)
        await asyncio.sleep(0)
        await dispatcher.abandon_requests()
        events.append("stopped")

    asyncio.run(stop())
    assert events[0] == "ended"
    assert "stopped" in events


def test_what_was_acknowledged_before_a_stop_is_there(start_node: Callable[..., Cluster]) -> None:
    """The stop arrives while workers convert batches."""
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        wire.create_topic("converted", compression_type="zstd")
    acknowledged: dict[int, bytes] = {}

    def produce(producer: int) -> None:
        with Wire(node.bootstrap_servers) as wire:
            for number in range(1_000_000):
                value = b"%d %d" % (producer, number)
                try:
                    answer = wire.produce("converted", batch_of(value, os.urandom(300_000)))
                except OSError:
                    return
                if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    return  # it resigns its leaderships before it stops
                assert answer.error_code == 0
                acknowledged[answer.base_offset] = value

    producers = [threading.Thread(target=produce, args=(n,)) for n in range(4)]
    for producer in producers:
        producer.start()
    wait_until(lambda: len(acknowledged) >= 50)
    os.kill(node.pid, signal.SIGTERM)
    for producer in producers:
        producer.join()
    node.restart()
    with Wire(node.bootstrap_servers) as wire:
        values = wire.values("converted")
    for offset, value in acknowledged.items():
        assert values[offset] == value
