"""Virtual time: it jumps, machines pause and die, and the order of events is the same every time."""

import asyncio
from random import Random

import pytest

from penstock.testing.simulator.loop import Livelock, NothingLeft, VirtualLoop
from penstock.testing.simulator.workers import VirtualExecutor


def new_loop(seed: int = 1) -> VirtualLoop:
    return VirtualLoop(Random(seed))


def test_an_hour_passes_in_a_moment() -> None:
    loop = new_loop()

    async def story() -> float:
        await asyncio.sleep(3600)
        return loop.time()

    assert loop.run_until_complete(story()) == pytest.approx(3600)


def test_timers_run_in_their_order_and_not_before() -> None:
    loop = new_loop()
    seen: list[tuple[int, float]] = []

    async def story() -> None:
        for delay_s in (3, 1, 2, 1):
            loop.call_later(delay_s, lambda delay_s=delay_s: seen.append((delay_s, round(loop.time(), 3))))
        cancelled = loop.call_later(1.5, seen.append, (0, 0.0))
        cancelled.cancel()
        await asyncio.sleep(4)

    loop.run_until_complete(story())
    assert seen == [(1, 1.0), (1, 1.0), (2, 2.0), (3, 3.0)]


def test_timers_are_late_after_a_callback_that_blocks() -> None:
    loop = new_loop()
    seen: list[float] = []

    async def story() -> None:
        loop.call_later(1, lambda: seen.append(loop.time()))
        loop.block(5)
        await asyncio.sleep(1)
        seen.append(loop.time())

    loop.run_until_complete(story())
    assert seen == [5, 6]


def test_a_fast_clock_has_its_timers_early() -> None:
    loop = new_loop()
    fast, heard = loop.machine("fast", "10.0.0.1", clock_rate=2.0), []

    async def wait() -> None:
        await asyncio.sleep(10)
        heard.append((round(loop.time(), 3), round(loop.now_s, 3)))

    async def story() -> None:
        loop.on(fast, lambda: loop.create_task(wait()))
        await asyncio.sleep(20)

    loop.run_until_complete(story())
    assert heard == [(10.0, 5.0)]


async def count_up(counts: dict[str, int], name: str) -> None:
    while True:
        counts[name] = counts.get(name, 0) + 1
        await asyncio.sleep(1)


def test_what_a_machine_starts_is_its_own_and_pauses_and_dies_with_it() -> None:
    loop = new_loop()
    counts: dict[str, int] = {}

    async def start(name: str) -> None:
        await asyncio.gather(count_up(counts, name))  # tasks of tasks

    async def story() -> list[dict[str, int]]:
        paused, dead = loop.machine("paused", "10.0.0.1"), loop.machine("dead", "10.0.0.2")
        loop.on(paused, lambda: loop.create_task(start("paused")))
        loop.on(dead, lambda: loop.create_task(start("dead")))
        await asyncio.sleep(5.5)
        looks = [dict(counts)]
        loop.pause(paused)
        loop.kill(dead)
        await asyncio.sleep(5)
        looks.append(dict(counts))
        loop.resume(paused)
        await asyncio.sleep(2.25)
        looks.append(dict(counts))
        return looks

    assert loop.run_until_complete(story()) == [
        {"paused": 6, "dead": 6},
        {"paused": 6, "dead": 6},
        {"paused": 9, "dead": 6},  # a call that fell due meanwhile, then one each second
    ]
    loop.abandon()


def test_machines_take_turns_by_the_seed_and_keep_their_own_order() -> None:
    def order(seed: int) -> str:
        loop, seen = new_loop(seed), []

        async def story() -> None:
            for name in "abc":
                machine = loop.machine(name, name)
                for number in range(3):
                    loop.on(machine, seen.append, f"{name}{number}")
            await asyncio.sleep(1)

        loop.run_until_complete(story())
        for name in "abc":
            assert [found for found in seen if found[0] == name] == [f"{name}{number}" for number in range(3)]
        return " ".join(seen)

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(10)}) > 5


def test_work_in_threads_takes_time_and_threads_are_few() -> None:
    loop = new_loop()

    async def story() -> list[tuple[int, float]]:
        executor = VirtualExecutor(loop, 2, lambda: 1.0)
        done: list[tuple[int, float]] = []

        async def work(number: int) -> None:
            await loop.run_in_executor(executor, lambda: None)
            done.append((number, round(loop.time(), 3)))

        await asyncio.gather(*(work(number) for number in range(4)))
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(executor, lambda: 1 // 0)
        return done

    assert loop.run_until_complete(story()) == [(0, 1.0), (1, 1.0), (2, 2.0), (3, 2.0)]


def test_a_loop_that_never_ends_is_told() -> None:
    loop = new_loop()

    async def story() -> None:
        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.sleep(1)

    with pytest.raises(Livelock):
        loop.run_until_complete(story())


def test_waiting_for_what_never_happens_is_told() -> None:
    loop = new_loop()

    async def story() -> None:
        await loop.create_future()

    with pytest.raises(NothingLeft):
        loop.run_until_complete(story())
