"""Long answers are built in many turns of the loop, short ones at once."""

import asyncio
from itertools import count

import pytest

from penstock.broker.network import turns
from penstock.broker.network.turns import Steps, in_turns


def steps(number: int) -> Steps[int]:
    for _ in range(number):
        yield
    return number


@pytest.fixture(autouse=True)
def a_step_takes_a_hundredth_of_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_now_ns", count(step=turns.PIECE_NS // 100).__next__)


def test_what_is_soon_done_is_answered_at_once() -> None:
    assert in_turns(steps(90)).result() == 90


def test_others_have_their_turn_in_between() -> None:
    async def count_turns() -> tuple[int, int]:
        answer = in_turns(steps(1_000))
        assert not answer.is_done
        task = asyncio.ensure_future(answer)
        turns_of_others = 0
        while not task.done():
            await asyncio.sleep(0)
            turns_of_others += 1
        return task.result(), turns_of_others

    result, turns_of_others = asyncio.run(count_turns())
    assert result == 1_000
    assert turns_of_others >= 10


def test_errors_arrive_whenever_they_come() -> None:
    def fails_after(number: int) -> Steps[int]:
        yield from steps(number)
        raise LookupError

    with pytest.raises(LookupError):
        in_turns(fails_after(1))

    async def later() -> int:
        answer = in_turns(fails_after(500))
        assert not answer.is_done
        return await answer

    with pytest.raises(LookupError):
        asyncio.run(later())
