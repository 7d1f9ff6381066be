"""Answers that are there at once, later, or never."""

import asyncio
from collections.abc import Callable

import pytest

from penstock.broker.network.answers import Answer, all_of
from penstock.protocol.errors import ErrorCode, KafkaError

REFUSED = KafkaError(ErrorCode.NOT_COORDINATOR)


def ask_again(value: int) -> Answer[int]:
    return Answer.of(value * 10)


def fail(value: int) -> int:
    raise REFUSED


def test_what_is_there_is_passed_on_at_once() -> None:
    seen: list[int] = []
    answer = Answer.of(1).then(lambda value: value + 1).and_then(ask_again)
    answer.when_done(lambda done: seen.append(done.value))
    assert seen == [20]
    assert answer.result() == 20


def test_what_comes_later_is_passed_on_in_the_same_call() -> None:
    first: Answer[int] = Answer.later(blocks=False)
    second: Answer[int] = Answer.later(blocks=True)
    answer = first.and_then(lambda _: second).then(lambda value: value + 1)
    assert not answer.blocks, "as the answer on which it waits"
    first.complete(1)
    assert not answer.is_done
    second.complete(2)
    assert answer.result() == 3


@pytest.mark.parametrize("is_late", [False, True])
def test_an_error_skips_what_is_next_until_something_recovers(is_late: bool) -> None:
    asked: Answer[int] = Answer.later(blocks=True) if is_late else Answer.of(1)
    answer = asked.then(fail).and_then(ask_again).recover(lambda error: int(error.code))
    if is_late:
        asked.complete(1)
    assert answer.result() == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("is_late", [False, True])
def test_only_errors_of_kafka_are_recovered(is_late: bool) -> None:
    asked: Answer[int] = Answer.later(blocks=True) if is_late else Answer.failed(LookupError())
    answer = asked.recover(lambda error: 0)
    if is_late:
        asked.fail(LookupError())
    with pytest.raises(LookupError):
        answer.result()


def test_an_answer_can_be_awaited() -> None:
    async def story() -> None:
        assert await Answer.of(1) == 1
        late: Answer[int] = Answer.later(blocks=True)
        asyncio.get_running_loop().call_soon(late.complete, 2)
        assert await late == 2
        with pytest.raises(KafkaError):
            await Answer.of(1).then(fail)

    asyncio.run(story())


def cancel_the_waiting(answer: Answer[int]) -> Callable[[], object]:
    return asyncio.ensure_future(answer).cancel


@pytest.mark.parametrize("give_up", [lambda answer: answer.abandon, cancel_the_waiting])
def test_abandoned_work_ends(give_up: Callable[[Answer[int]], Callable[[], object]]) -> None:
    """This holds through everything that was to follow the work."""

    async def story() -> None:
        ended = asyncio.Event()

        async def work() -> int:
            try:
                return await asyncio.get_running_loop().create_future()
            finally:
                ended.set()

        answer = Answer.working(work()).then(lambda value: value + 1).and_then(ask_again)
        assert answer.task is not None
        stop = give_up(answer)
        await asyncio.sleep(0)
        stop()
        await ended.wait()
        await asyncio.wait({answer.task})
        assert answer.task.cancelled()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_the_second_step_is_abandoned_once_it_runs() -> None:
    abandoned: list[str] = []
    first: Answer[int] = Answer.later(blocks=True, on_abandon=lambda: abandoned.append("first"))
    second: Answer[int] = Answer.later(blocks=True, on_abandon=lambda: abandoned.append("second"))
    answer = first.and_then(lambda _: second)
    first.complete(1)
    answer.abandon()
    assert abandoned == ["second"]


def test_the_request_that_ends_a_wait_is_answered_first() -> None:
    """As the leader of a group, whose SyncGroup ends the waits of the other members."""

    async def answered() -> list[str]:
        order: list[str] = []
        parked, ending = (asyncio.get_running_loop().create_future() for _ in range(2))
        Answer.of_future(parked).when_done(lambda done: order.append("parked"))
        parked.set_result(None)
        ending.set_result(None)
        Answer.of_future(ending).when_done(lambda done: order.append("ending"))
        await asyncio.sleep(0)
        return order

    assert asyncio.run(answered()) == ["ending", "parked"]


def test_all_answers_are_collected_in_their_order() -> None:
    async def story() -> None:
        assert all_of([Answer.of(1), Answer.of(2)]).result() == [1, 2]
        late: Answer[int] = Answer.later(blocks=True)
        both = all_of([late, Answer.of(2)])
        assert not both.is_done
        late.complete(1)
        assert await both == [1, 2]
        with pytest.raises(KafkaError):
            all_of([Answer.of(1), Answer.of(1).then(fail)]).result()

    asyncio.run(story())
