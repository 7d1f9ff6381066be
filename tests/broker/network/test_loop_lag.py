"""The longest turns of an event loop are measured, on a loop of the test's own."""

import asyncio
import logging
import selectors
import socket
from collections.abc import Callable

import pytest

from penstock.broker.network import loop_lag
from penstock.broker.network.loop_lag import (
    LOG_INTERVAL_S,
    READY_PER_TURN,
    LoopLag,
    TurnSelector,
    new_event_loop,
)
from penstock.testing.simulator.loop import VirtualLoop
from virtual_time import run_virtually


class Clock:
    """The time on a loop where only waits of the loop and `advance` take time."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000_000

    def advance(self, seconds: float) -> None:
        """Let this much time pass within the current turn."""
        self.now_ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the measured loops of this test. Where a loop would wait, the clock jumps."""
    clock = Clock()

    class Jumping(loop_lag._FewAtOnce):
        def poll(self, timeout: float | None, maxevents: int) -> list[tuple[int, int]]:
            if timeout is None or timeout < 0:
                return super().poll(timeout, maxevents)
            ready = super().poll(0, maxevents)
            if not ready:
                clock.advance(timeout)
            return ready

    monkeypatch.setattr(TurnSelector, "_selector_cls", Jumping)
    monkeypatch.setattr(loop_lag, "_now_ns", lambda: clock.now_ns)
    monkeypatch.setattr(loop_lag.MeasuredEventLoop, "time", lambda loop: clock.now_ns / 1e9)
    return clock


def test_every_long_turn_is_seen(clock: Clock) -> None:
    async def stand_still() -> LoopLag:
        lag = LoopLag(asyncio.get_running_loop())
        clock.advance(0.05)
        lag.start()  # what went before doesn't count
        await asyncio.sleep(0)
        for _ in range(3):
            clock.advance(0.015)
            await asyncio.sleep(0.001)
        clock.advance(0.009)
        await asyncio.sleep(0.001)
        lag.stop()
        return lag

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        lag = runner.run(stand_still())
    assert lag.slow_turns == 3
    assert lag.max_ms == 15


def told_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines about long turns that name a request."""
    return [message for record in caplog.records if "longest_request=" in (message := record.getMessage())]


def test_what_a_long_turn_was_spent_on_is_told(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    caplog.set_level(logging.INFO, "penstock.broker.network.loop_lag")

    async def stand_still() -> None:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        await asyncio.sleep(0.01)
        clock.advance(0.02)
        lag.took("OFFSET_FETCH", 20_000_000)
        lag.took("METADATA", 1_500_000)
        await asyncio.sleep(0.15)
        lag.stop()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(stand_still())
    (told,) = told_of(caplog)
    assert "longest_request=OFFSET_FETCH request_ms=20.0" in told


def test_many_long_turns_are_told_of_in_one_line(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    """The first long turn is logged at once, then the worst of those before the next line is allowed."""
    caplog.set_level(logging.INFO, "penstock.broker.network.loop_lag")

    async def stand_still() -> None:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        await asyncio.sleep(0.01)
        for work in ["FIRST", "SECOND", "THIRD"]:
            clock.advance(0.4 if work == "SECOND" else 0.02)
            lag.took(work, 20_000_000)
            await asyncio.sleep(0.15)
        assert len(told_of(caplog)) == 1
        await asyncio.sleep(LOG_INTERVAL_S)
        lag.stop()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(stand_still())
    first, second = told_of(caplog)
    assert "turns=1 " in first
    assert "longest_request=FIRST" in first
    assert "turns=2 " in second
    assert "longest_request=SECOND" in second


def test_turns_that_are_slow_for_want_of_a_processor_are_told_apart() -> None:
    class Machine(TurnSelector):
        """A machine on which other processes use the processor for a given time."""

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


def test_what_nobody_waited_for_is_forgotten(clock: Clock) -> None:
    async def stand_still() -> LoopLag:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        await asyncio.sleep(0)
        clock.advance(0.5)
        lag.forget()
        await asyncio.sleep(0)
        lag.stop()
        return lag

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(stand_still()).max_ms == 0


def test_waiting_for_something_to_do_is_no_turn(clock: Clock) -> None:
    async def wait() -> LoopLag:
        lag = LoopLag(asyncio.get_running_loop())
        lag.start()
        await asyncio.sleep(0.3)
        lag.stop()
        return lag

    before_ns = clock.now_ns
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(wait()).max_ms == 0
    assert clock.now_ns - before_ns >= 300_000_000


def test_any_other_loop_is_sampled() -> None:
    async def stand_still() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        lag = LoopLag(loop)
        lag.start()
        await asyncio.sleep(0.01)
        loop.block(0.15)
        await asyncio.sleep(0.01)
        lag.stop()
        assert lag.slow_turns == 1
        assert lag.max_ms > 10

    run_virtually(stand_still())


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
