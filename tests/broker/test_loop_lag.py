"""The event loop's longest turns are seen, each of them on a loop of our own."""

import asyncio
import logging
import selectors
import socket
import time
from collections.abc import Callable

import pytest

from penstock.broker import loop_lag
from penstock.broker.loop_lag import READY_PER_TURN, LoopLag, TurnSelector, new_event_loop


def stand_still_for(seconds: float) -> None:
    time.sleep(seconds)


def test_every_long_turn_is_seen() -> None:
    async def stand_still() -> LoopLag:
        lag = LoopLag(asyncio.get_running_loop())
        stand_still_for(0.05)
        lag.start()  # what went before doesn't count
        await asyncio.sleep(0)
        for _ in range(3):
            stand_still_for(0.015)
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        lag.stop()
        return lag

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        lag = runner.run(stand_still())
    assert lag.slow_turns >= 3
    assert lag.max_ms >= 15


def test_what_a_long_turn_was_spent_on_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.broker.loop_lag")

    async def stand_still() -> None:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        await asyncio.sleep(0.01)
        stand_still_for(0.02)
        lag.took("OFFSET_FETCH", 20_000_000)
        lag.took("METADATA", 1_500_000)
        await asyncio.sleep(0.15)
        lag.stop()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(stand_still())
    (told,) = [record.getMessage() for record in caplog.records if "OFFSET_FETCH" in record.getMessage()]
    assert "longest request OFFSET_FETCH 20.0 ms" in told


def test_many_long_turns_are_told_of_in_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "penstock.broker.loop_lag")
    monkeypatch.setattr(loop_lag, "TOLD_EVERY_S", 1.0)

    async def stand_still() -> None:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        await asyncio.sleep(0.01)
        for work in ["FIRST", "SECOND", "THIRD"]:
            stand_still_for(0.4 if work == "SECOND" else 0.02)
            lag.took(work, 20_000_000)
            await asyncio.sleep(0.15)
        await asyncio.sleep(1.0)
        lag.stop()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(stand_still())
    told = [message for record in caplog.records if "longest request" in (message := record.getMessage())]
    assert (
        len(told) <= 2
    )  # the first at once, if a busy machine has not had one before, and the worst of the rest
    assert "longest request SECOND" in told[-1]


def test_turns_that_are_slow_for_want_of_a_processor_are_told_apart() -> None:
    class Machine(TurnSelector):
        """On which others have the processor for as long as is said."""

        def queue(self, read: Callable[[], int]) -> None:
            self._queue.read = read  # type: ignore[method-assign]

    with Machine() as turns:
        turns.queue(lambda: 0)
        turns.began_ns -= 15_000_000
        turns.select(0)
        assert (turns.slow_turns, turns.queued_turns) == (1, 0)
        turns.queue(lambda: 600_000_000)
        turns.began_ns -= 500_000_000
        turns.select(0)
        assert (turns.slow_turns, turns.queued_turns) == (2, 1)
        assert turns.worst is not None
        assert turns.worst.queued_ns == turns.worst.turn_ns


def test_what_nobody_waited_for_is_forgotten() -> None:
    async def stand_still() -> LoopLag:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        await asyncio.sleep(0)
        stand_still_for(0.5)
        lag.forget()
        await asyncio.sleep(0)
        lag.stop()
        return lag

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(stand_still()).max_ms < 250


def test_waiting_for_something_to_do_is_no_turn() -> None:
    async def wait() -> LoopLag:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        await asyncio.sleep(0.3)
        lag.stop()
        return lag

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(wait()).max_ms < 250


def test_any_other_loop_is_sampled() -> None:
    async def stand_still() -> LoopLag:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        await asyncio.sleep(0.01)
        stand_still_for(0.15)
        await asyncio.sleep(0.01)
        lag.stop()
        return lag

    lag = asyncio.run(stand_still())
    assert lag.slow_turns == 1
    assert lag.max_ms > 10


def test_no_turn_serves_more_than_a_few_and_all_have_theirs() -> None:
    pairs = [socket.socketpair() for _ in range(3 * READY_PER_TURN + 1)]
    with TurnSelector() as turns:
        for near, far in pairs:
            turns.register(near, selectors.EVENT_READ)
            far.send(b"never read, so ready all the time")
        served: list[int] = []
        for _ in range(4):
            ready = turns.select(0)
            assert len(ready) == READY_PER_TURN
            served += [key.fd for key, _ in ready]
        assert set(served) == {near.fileno() for near, _ in pairs}
    for pair in pairs:
        for end in pair:
            end.close()
