"""Transactions whose coordinator and partitions have followers: only committed decisions count."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path

import pytest

from broker_wire import batch_of, produce_request
from in_process import create, running_node
from penstock.broker.api import produce
from penstock.broker.coordination.transactions.runtime import TV2, are_concurrent
from penstock.broker.network.answers import Answer
from penstock.broker.network.context import RequestContext
from penstock.broker.node import Broker
from penstock.broker.partitions.replica import Replica
from penstock.coordinators.transaction.states import TransactionState
from penstock.protocol.batch import iter_headers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from penstock.protocol.records import decode_batch, decode_end_txn_marker
from penstock.security.permissions import UNRESTRICTED
from penstock.storage.producers.verification import NOT_REQUIRED
from several_replicas import Followed, commit_all, follow_all
from virtual_time import run_virtually

OK = ErrorCode.NONE
AWAY = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)

Producer = tuple[int, int]


def init(broker: Broker, transactional_id: str = "t", timeout_ms: int = 60_000) -> object:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    return broker.transactions.init_producer_id(request)


def add(broker: Broker, producer: Producer, transactional_id: str = "t", partition: int = 0) -> object:
    return broker.transactions.add_or_verify_partitions(transactional_id, *producer, [("t1", partition)])


def end(broker: Broker, producer: Producer, transactional_id: str = "t", *, commit: bool = True) -> object:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=commit,
    )
    return broker.transactions.end_txn(request, TV2)


async def now(answer: Answer[object]) -> object:
    return await answer


def later(answer: Answer[object]) -> "asyncio.Future[object]":
    assert not answer.is_done, f"answered at once: {answer.value}"
    return asyncio.ensure_future(answer)


async def is_waiting(answer: "asyncio.Future[object]") -> bool:
    for _ in range(20):
        await asyncio.sleep(0.001)
        if answer.done():
            return False
    return True


async def replicate(followed: Followed) -> None:
    """Replicate pending appends to the follower."""
    for _ in range(2000):
        if followed.uncommitted:
            followed.commit()
            return
        await asyncio.sleep(0.005)
    raise AssertionError("nothing was appended")


async def producer_of(answer: Awaitable[object]) -> Producer:
    response = await answer
    assert isinstance(response, InitProducerIdResponse | EndTxnResponse)
    assert response.error_code == OK, ErrorCode(response.error_code).name
    return response.producer_id, response.producer_epoch


def state_of(broker: Broker, transactional_id: str = "t") -> str:
    return broker.transactions.describe(transactional_id).transaction_state


async def until(broker: Broker, state: TransactionState, *partitions: Followed) -> None:
    for _ in range(1000):
        commit_all(list(partitions))
        if state_of(broker) == state.value:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"never became {state}, but {state_of(broker)}")


def markers_in(followed: Followed) -> list[tuple[Producer, bool, int]]:
    """The producer, outcome and coordinator epoch of each marker."""
    log = followed.replica.log
    chunk = log.read(log.log_start_offset, 1 << 20, up_to_offset=log.log_end_offset)
    found = []
    data = b"" if chunk is None else bytes(chunk.read())
    for position, header in iter_headers(data):
        if header.is_control:
            (record,) = decode_batch(data, position)
            marker = decode_end_txn_marker(record)
            found.append(
                ((header.producer_id, header.producer_epoch), marker.committed, marker.coordinator_epoch)
            )
    return found


async def ready(broker: Broker) -> tuple[Followed, Followed]:
    """The coordinator's partition of "t", and the partition it writes to."""
    await broker.transactions.ensure_topic()
    await create(broker, "t1")
    partition = broker.transactions.partition_of("t")
    return Followed(broker, broker.transactions.TOPIC, partition), Followed(broker, "t1", 0)


async def began(broker: Broker, state: Followed, data: Followed) -> Producer:
    """Begin a transaction with one record, with everything committed."""
    waiting = later(init(broker))
    assert await is_waiting(waiting)
    await replicate(state)
    producer = await producer_of(waiting)
    added = later(add(broker, producer))
    assert await is_waiting(added)
    await replicate(state)
    assert await added == {("t1", 0): OK}
    batch = batch_of(b"x", producer=(*producer, 0), transactional=True)
    broker.replicas.append("t1", 0, batch, verification=NOT_REQUIRED)
    data.commit()
    return producer


def test_markers_leave_when_the_decision_is_committed(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            state, data = await ready(broker)
            producer = await began(broker, state, data)
            ended = later(end(broker, producer))
            assert await is_waiting(ended)
            assert markers_in(data) == []
            assert state_of(broker) == "Ongoing"
            state.commit()
            assert await producer_of(ended) == (producer[0], producer[1] + 1)
            assert state_of(broker) == "PrepareCommit"
            assert len(markers_in(data)) == 1
            data.commit()
            await asyncio.sleep(0.01)
            assert state_of(broker) == "PrepareCommit"  # the completion is being replicated
            state.commit()
            assert state_of(broker) == "CompleteCommit"

    run_virtually(story())


def test_a_node_that_stood_still_answers_nothing_from_memory(tmp_path: Path) -> None:
    """It cannot confirm partitions of a transaction that another node may have aborted."""

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            state, data = await ready(broker)
            producer = await began(broker, state, data)
            assert await now(add(broker, producer)) == {("t1", 0): OK}
            state.stand_still()
            assert await now(add(broker, producer)) == {("t1", 0): ErrorCode.NOT_COORDINATOR}

    run_virtually(story())


def test_the_last_stable_offset_waits_for_the_marker_to_be_committed(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            state, data = await ready(broker)
            producer = await began(broker, state, data)
            ended = later(end(broker, producer))
            state.commit()
            await ended
            assert data.replica.last_stable_offset == 0
            data.commit()
            assert data.replica.last_stable_offset == 2

    run_virtually(story())


def test_partitions_added_at_once_wait_for_each_other(tmp_path: Path) -> None:
    """Kafka answers CONCURRENT_TRANSACTIONS here."""

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.transactions.ensure_topic()
            await create(broker, "t1", partitions=3)
            state = Followed(broker, broker.transactions.TOPIC, broker.transactions.partition_of("t"))
            waiting = later(init(broker))
            await replicate(state)
            producer = await producer_of(waiting)
            adding = [later(add(broker, producer, partition=index)) for index in range(3)]
            ended = later(end(broker, producer))
            for index, each in enumerate(adding):
                assert await is_waiting(each)
                await replicate(state)
                assert await each == {("t1", index): OK}
            assert await is_waiting(ended)
            await replicate(state)
            await producer_of(ended)
            assert {data for data in range(3) if markers_in(Followed(broker, "t1", data))} == {0, 1, 2}

    run_virtually(story())


def test_who_leads_a_partition_only_since_its_coordinator_was_asked_sends_the_producer_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is for a partition that moves here meanwhile, which was not added to the transaction."""

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.transactions.ensure_topic()
            await create(broker, "t1", partitions=2)
            state = Followed(broker, broker.transactions.TOPIC, broker.transactions.partition_of("t"))
            waiting = later(init(broker))
            await replicate(state)
            producer = await producer_of(waiting)
            leader = broker.replicas.leader

            def leader_elsewhere(topic: str | bytes, partition: int) -> Replica:
                if partition == 1:
                    raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return leader(topic, partition)

            request = produce_request("t1", batch_of(b"x", producer=(*producer, 0), transactional=True))
            request.transactional_id = "t"
            (topic,) = request.topic_data
            other = batch_of(b"y", producer=(*producer, 0), transactional=True)
            topic.partition_data.append(ProduceRequest.PartitionProduceData(index=1, records=other))
            context = RequestContext(12, "client", "127.0.0.1", "User:ANONYMOUS", "PLAINTEXT", UNRESTRICTED)
            with monkeypatch.context() as patched:
                patched.setattr(broker.replicas, "leader", leader_elsewhere)
                produced = later(produce.handle(broker, request, context))
                assert await is_waiting(produced)
            await replicate(state)
            response = await produced
            assert isinstance(response, ProduceResponse)
            codes = [each.error_code for each in response.responses[0].partition_responses]
            assert codes == [OK, ErrorCode.NOT_LEADER_OR_FOLLOWER]

    run_virtually(story())


def test_the_next_transaction_waits_a_moment_for_the_end_of_the_last(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            state, data = await ready(broker)
            producer = await began(broker, state, data)
            ended = later(end(broker, producer))
            await replicate(state)
            following = await producer_of(ended)

            def ask() -> object:
                return broker.transactions.ask_when_ended(
                    "t",
                    lambda: broker.transactions.add_or_verify_partitions("t", *following, [("t1", 0)]),
                    are_concurrent,
                )

            # its marker cannot be written: the request waits only a moment
            assert await later(ask()) == {("t1", 0): ErrorCode.CONCURRENT_TRANSACTIONS}
            added = later(ask())
            await asyncio.sleep(0.005)
            data.commit()
            await replicate(state)  # the completion
            await replicate(state)  # and the partition of the next transaction
            assert await added == {("t1", 0): OK}
            # and a coordinator that resigns answers all waiting requests
            ended = later(end(broker, following))
            await replicate(state)
            await producer_of(ended)
            waiting = later(ask())
            await asyncio.sleep(0.005)
            state.lose(broker.transactions)
            assert await waiting == {("t1", 0): ErrorCode.NOT_COORDINATOR}

    run_virtually(story())


@pytest.mark.parametrize("keeps", [False, True])
def test_a_decision_that_is_not_committed_counts_if_the_next_coordinator_has_it(
    tmp_path: Path, keeps: bool
) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            state, data = await ready(broker)
            producer = await began(broker, state, data)
            ended = later(end(broker, producer))
            state.lose(broker.transactions)
            with pytest.raises(KafkaError) as refused:
                await ended
            assert refused.value.code is ErrorCode.NOT_COORDINATOR
            state.win(broker.transactions, state.replica.log.log_end_offset if keeps else None)
            state.commit()
            if keeps:
                await until(broker, TransactionState.COMPLETE_COMMIT, state, data)
                told = (producer[0], producer[1] + 1)
                assert markers_in(data) == [(told, True, state.replica.leader_epoch)]
                return
            await until(broker, TransactionState.ONGOING)
            assert markers_in(data) == []
            again = later(end(broker, producer, commit=False))
            state.commit()
            await producer_of(again)
            await until(broker, TransactionState.COMPLETE_ABORT, state, data)
            assert [committed for _, committed, _ in markers_in(data)] == [False]

    run_virtually(story())


def test_the_next_coordinator_aborts_what_has_timed_out(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            state, data = await ready(broker)
            waiting = later(init(broker, timeout_ms=100))
            await replicate(state)
            added = later(add(broker, await producer_of(waiting)))
            await replicate(state)
            await added
            state.lose(broker.transactions)
            await asyncio.sleep(0.15)
            state.win(broker.transactions)
            await until(broker, TransactionState.COMPLETE_ABORT, state, data)
            assert broker.transactions.counters().timed_out == 1

    run_virtually(story())


def test_a_timeout_waits_for_records_that_are_on_the_way(tmp_path: Path) -> None:
    """One of these records may end the transaction."""

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            state, data = await ready(broker)
            waiting = later(init(broker, timeout_ms=50))
            await replicate(state)
            producer = await producer_of(waiting)
            added = later(add(broker, producer))
            await replicate(state)
            await added
            ended = later(end(broker, producer))
            await asyncio.sleep(0.1)
            assert state.uncommitted == 1
            state.commit()
            await producer_of(ended)
            await until(broker, TransactionState.COMPLETE_COMMIT, state, data)
            assert broker.transactions.counters().timed_out == 0

    run_virtually(story())


def test_too_few_replicas_are_told_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path, **{"transaction.state.log.min.isr": "2"}) as broker:
            state, _ = await ready(broker)
            state.replica.isr_size = 1
            with pytest.raises(KafkaError) as refused:
                await now(init(broker))
            assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            state.replica.isr_size = 2
            waiting = later(init(broker))
            await replicate(state)
            await producer_of(waiting)

    run_virtually(story())


@pytest.mark.parametrize("seed", range(8))
def test_random_elections_keep_decisions_and_epochs(tmp_path: Path, seed: int) -> None:
    """Under random elections, no producer epoch is assigned twice and no transaction has two outcomes."""
    rng = random.Random(seed)
    ids = [f"t{number}" for number in range(5)]
    given: list[tuple[str, Producer]] = []
    decided: dict[Producer, bool] = {}
    counts: Counter[str] = Counter()

    async def client(broker: Broker, transactional_id: str) -> None:
        producer: Producer | None = None
        while True:
            await asyncio.sleep(rng.random() * 0.002)
            try:
                if producer is None:
                    response = await now(init(broker, transactional_id))
                    assert isinstance(response, InitProducerIdResponse)
                    if response.error_code == OK:
                        producer = (response.producer_id, response.producer_epoch)
                        given.append((transactional_id, producer))
                        counts["given"] += 1
                    continue
                codes = await now(add(broker, producer, transactional_id, rng.randrange(2)))
                assert isinstance(codes, dict)
                (code,) = codes.values()
                if code is not OK:
                    counts[code.name] += 1
                    if code is ErrorCode.PRODUCER_FENCED:
                        producer = None
                    continue
                commit = rng.random() < 0.5
                ended = await now(end(broker, producer, transactional_id, commit=commit))
                assert isinstance(ended, EndTxnResponse)
                if ended.error_code == OK:
                    next_producer = (ended.producer_id, ended.producer_epoch)
                    decided[next_producer] = commit
                    given.append((transactional_id, next_producer))
                    producer = next_producer
                    counts["ended"] += 1
                else:
                    counts[ErrorCode(ended.error_code).name] += 1
                    producer = None
            except KafkaError as error:
                if error.code not in AWAY:
                    raise
                counts[error.code.name] += 1
                producer = None

    async def story() -> None:
        async with running_node(tmp_path, **{"request.timeout.ms": "20"}) as broker:
            await broker.transactions.ensure_topic()
            await create(broker, "t1", partitions=2)
            states = follow_all(broker, broker.transactions)
            data = [Followed(broker, "t1", index) for index in range(2)]
            clients = [asyncio.create_task(client(broker, each)) for each in ids]
            for _ in range(250):
                commit_all(data) if rng.random() < 0.7 else None
                each = rng.choice(states)
                if rng.random() < 0.03:
                    each.lose(broker.transactions)
                    if rng.random() < 0.7:
                        await asyncio.sleep(rng.random() * 0.002)
                    log_end_offset = each.replica.log.log_end_offset
                    each.win(broker.transactions, rng.randint(each.replica.high_watermark, log_end_offset))
                elif rng.random() < 0.8:
                    each.commit(each.replica.high_watermark + rng.randint(0, each.uncommitted))
                await asyncio.sleep(rng.random() * 0.003)
            for task in clients:
                assert not task.done(), task
                task.cancel()
            outcomes: dict[Producer, bool] = {}
            for where in data:
                for producer, committed, _ in markers_in(where):
                    assert outcomes.setdefault(producer, committed) is committed, f"seed {seed}: {producer}"
            for producer, commit in decided.items():
                assert outcomes.get(producer, commit) is commit, f"seed {seed}: {producer}"
        repeated = [each for each, count in Counter(given).items() if count > 1]
        assert repeated == [], f"seed {seed}"
        assert counts["ended"] > 10, counts
        assert counts["given"] > 5, counts

    run_virtually(story())
