"""One broker's requests to another's coordinator and partitions, over real connections to a real node."""

import asyncio
import random
from pathlib import Path

from broker_wire import batch_of
from in_process import create, run, running_node
from penstock.broker.coordination.broker_peers import BrokerPeers
from penstock.broker.coordination.marker import Marker
from penstock.broker.coordination.transactions.marker_queue import MarkerQueue
from penstock.broker.coordination.transactions.remote_coordinators import Codes, Question, RemoteCoordinators
from penstock.broker.node import Broker
from penstock.coordinators.transaction.metadata import TopicPartition
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from penstock.storage.producers.verification import NOT_REQUIRED

OK = ErrorCode.NONE
TIMEOUT_MS = 2_000


def peers_of(broker: Broker) -> BrokerPeers:
    """The connections of another broker with the same image."""
    listener_name = broker.config.inter_broker_listener_name
    dial = broker.dial_broker
    return BrokerPeers(lambda: broker.image, listener_name, dial, "broker-9-test", random.Random(1))


async def producer(broker: Broker, transactional_id: str) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    answer = broker.transactions.init_producer_id(request)
    response = await answer
    assert isinstance(response, InitProducerIdResponse)
    return response.producer_id, response.producer_epoch


def test_transactions_that_gather_are_asked_for_together(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.transactions.ensure_topic()
            await create(broker, "t1", partitions=3)
            producers = {name: await producer(broker, name) for name in ("a", "b")}
            coordinators = RemoteCoordinators(peers_of(broker), TIMEOUT_MS)

            def ask(name: str, partition: int, *, verify_only: bool = False) -> asyncio.Future[Codes]:
                question = Question(name, *producers[name], [("t1", partition)], verify_only)
                return coordinators.ask(broker.node_id, question)

            first = [ask("a", 0), ask("b", 1), ask("a", 2)]
            assert await asyncio.gather(*first) == [{("t1", 0): OK}, {("t1", 1): OK}, {("t1", 2): OK}]
            # the second question about "a" needed a separate request
            assert broker.dispatcher.stats[ApiKey.ADD_PARTITIONS_TO_TXN].requests == 2
            verified = [ask("a", 2, verify_only=True), ask("b", 2, verify_only=True)]
            assert await asyncio.gather(*verified) == [
                {("t1", 2): OK},
                {("t1", 2): ErrorCode.TRANSACTION_ABORTABLE},
            ]
            producers["a"] = (producers["a"][0], producers["a"][1] - 1)
            assert await ask("a", 0) == {("t1", 0): ErrorCode.PRODUCER_FENCED}
            producers["c"] = (7, 0)
            assert await ask("c", 9) == {("t1", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            coordinators.close()

    run(story())


def test_who_cannot_be_asked_is_a_network_exception(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            coordinators = RemoteCoordinators(peers_of(broker), TIMEOUT_MS)
            question = Question("a", 1, 0, [("t1", 0), ("t1", 1)], verify_only=False)
            unknown = dict.fromkeys([("t1", 0), ("t1", 1)], ErrorCode.NETWORK_EXCEPTION)
            assert await coordinators.ask(8, question) == unknown  # no producer has this id
            waiting = coordinators.ask(broker.node_id, question)
            coordinators.close()
            assert await waiting == unknown

    run(story())


def test_markers_are_written_by_the_broker_that_leads(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, "t1", partitions=2)
            for partition, producer_id in ((0, 5), (1, 5), (0, 6)):
                batch = batch_of(b"x", producer=(producer_id, 0, 0), transactional=True)
                broker.replicas.append("t1", partition, batch, verification=NOT_REQUIRED)
            told: dict[tuple[int, TopicPartition], ErrorCode] = {}
            done = asyncio.Event()
            peers = peers_of(broker)
            queue = MarkerQueue(lambda: peers.of(broker.node_id), TIMEOUT_MS)

            def add(marker: Marker, place: TopicPartition) -> None:
                def note(error: ErrorCode) -> None:
                    told[marker.producer_epoch, place] = error
                    if len(told) == 4:
                        done.set()

                queue.add(place, marker, note)

            commit, again = Marker(5, 1, 3, True, 2), Marker(5, 2, 3, False, 2)
            for place in (("t1", 0), ("t1", 1), ("gone", 0)):
                add(commit, place)
            add(again, ("t1", 0))  # of the same producer: not in the same request
            assert len(queue) == 4
            await asyncio.wait_for(done.wait(), 60)
            assert told == {
                (1, ("t1", 0)): OK,
                (1, ("t1", 1)): OK,
                (1, ("gone", 0)): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                (2, ("t1", 0)): OK,
            }
            assert broker.dispatcher.stats[ApiKey.WRITE_TXN_MARKERS].requests == 2
            ends = [broker.replicas.leader("t1", index).last_stable_offset for index in range(2)]
            assert ends == [1, 2]  # the transaction of producer 6 is open in the first
            old: asyncio.Future[ErrorCode] = broker.loop.create_future()
            queue.add(("t1", 0), Marker(5, 3, 2, True, 2), old.set_result)
            assert await old is ErrorCode.TRANSACTION_COORDINATOR_FENCED
            queue.close()
            peers.close()

    run(story())


def test_markers_for_a_broker_that_is_away_come_back_as_such(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            told: asyncio.Future[ErrorCode] = broker.loop.create_future()
            queue = MarkerQueue(lambda: peers_of(broker).of(8), TIMEOUT_MS)
            queue.add(("t1", 0), Marker(5, 0, 0, True, 2), told.set_result)
            assert await told is ErrorCode.NETWORK_EXCEPTION

    run(story())
