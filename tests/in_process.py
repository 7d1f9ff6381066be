"""A node on the test's own event loop, for tests that inspect the node's internals.

`run` uses real time, `virtual_time.run_virtually` virtual time.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from penstock.broker.node import Broker
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.topics import create_topics, delete_topics
from penstock.protocol.messages import CreateTopicsRequest, DeleteTopicsRequest
from penstock.testing.simulator.loop import VirtualLoop
from virtual_time import VirtualMachine


@asynccontextmanager
async def running_node(directory: Path, **properties: str) -> AsyncIterator[Broker]:
    """A node with three partitions for each coordinator; `properties` have Kafka's names, with dots."""
    config = BrokerConfig.single_node(
        {
            "log.dirs": str(directory),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            **properties,
        }
    )
    loop = asyncio.get_running_loop()
    broker = Broker(config, VirtualMachine(loop) if isinstance(loop, VirtualLoop) else None)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def create(broker: Broker, *names: str, partitions: int = 1) -> None:
    topics = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name in names
    ]
    await broker.controller.submit_and_follow(
        partial(create_topics, request=CreateTopicsRequest(topics=topics))
    )


async def delete(broker: Broker, *names: str) -> None:
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    await broker.controller.submit_and_follow(
        partial(delete_topics, request=DeleteTopicsRequest(topics=topics))
    )


def run(story: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 60))
