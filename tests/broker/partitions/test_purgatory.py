import asyncio

from penstock.broker.partitions.purgatory import TICK_S, DelayedFetch, Purgatory, WaitList
from virtual_time import run_virtually


class Fetches:
    """Partitions, and the fetches that waited on them."""

    def __init__(self) -> None:
        self.purgatory = Purgatory(asyncio.get_running_loop())
        self.first, self.second = WaitList(), WaitList()
        self.completed: list[str] = []

    def wait(self, name: str, missing_bytes: int, max_wait_ms: int = 60_000) -> DelayedFetch:
        return DelayedFetch(
            self.purgatory,
            [self.first, self.second],
            missing_bytes,
            max_wait_ms,
            lambda: self.completed.append(name),
        )


def test_a_fetch_ends_when_its_partitions_grew_by_what_was_missing() -> None:
    async def story() -> None:
        fetches = Fetches()
        fetches.wait("a", 100)
        fetches.first.grown(60)
        fetches.purgatory.complete_ready()
        assert fetches.completed == []
        fetches.second.grown(40)
        assert fetches.completed == [], "it waits for the end of the turn"
        fetches.purgatory.complete_ready()
        assert fetches.completed == ["a"]
        assert fetches.purgatory.waiting == 0
        assert not fetches.first.waiting
        assert not fetches.second.waiting

    run_virtually(story())


def test_outside_of_any_turn_the_loop_completes_it() -> None:
    async def story() -> None:
        fetches = Fetches()
        fetches.wait("a", 1)
        fetches.first.grown(1)
        await asyncio.sleep(0)
        assert fetches.completed == ["a"]

    run_virtually(story())


def test_time_ends_a_fetch_once() -> None:
    async def story() -> None:
        fetches = Fetches()
        fetches.wait("a", 10, max_wait_ms=5)
        await asyncio.sleep(0.03)
        fetches.first.grown(10)
        fetches.purgatory.complete_ready()
        assert fetches.completed == ["a"]
        assert fetches.purgatory.expired == 1

    run_virtually(story())


def test_each_fetch_ends_at_its_own_time_and_none_before() -> None:
    async def story() -> None:
        fetches = Fetches()
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        ended_s: dict[int, float] = {}
        waits_ms = (60, 7, 23, 7, 41, 0)
        for number, max_wait_ms in enumerate(waits_ms):
            DelayedFetch(
                fetches.purgatory,
                [fetches.first],
                10,
                max_wait_ms,
                lambda number=number: ended_s.setdefault(number, loop.time() - begun_s),
            )
        fetches.wait("gone", 10, max_wait_ms=30).cancel()
        await asyncio.sleep(0.2)
        assert sorted(ended_s) == list(range(len(waits_ms)))
        late_s = [ended_s[number] - wait_ms / 1000 for number, wait_ms in enumerate(waits_ms)]
        assert all(0 <= late <= TICK_S + 1e-4 for late in late_s), late_s
        assert fetches.completed == []
        assert fetches.purgatory.waiting == 0
        assert fetches.purgatory.expired == len(waits_ms)

    run_virtually(story())


def test_a_fetch_that_begins_as_another_expires_waits_its_time() -> None:
    async def story() -> None:
        fetches = Fetches()
        again: list[DelayedFetch] = []
        DelayedFetch(
            fetches.purgatory, [fetches.first], 10, 5, lambda: again.append(fetches.wait("next", 10, 30))
        )
        await asyncio.sleep(0.02)
        assert len(again) == 1
        assert fetches.completed == []
        await asyncio.sleep(0.08)
        assert fetches.completed == ["next"]

    run_virtually(story())


def test_other_news_ends_a_fetch_and_cancelling_forgets_it() -> None:
    async def story() -> None:
        fetches = Fetches()
        fetches.wait("a", 10)
        fetches.wait("b", 10).cancel()
        fetches.second.changed()
        fetches.purgatory.complete_ready()
        assert fetches.completed == ["a"]
        assert fetches.purgatory.waiting == 0

    run_virtually(story())


def test_a_fetch_cancelled_after_it_was_ready_is_not_completed() -> None:
    async def story() -> None:
        fetches = Fetches()
        waiter = fetches.wait("a", 1)
        fetches.first.grown(1)
        waiter.cancel()
        fetches.purgatory.complete_ready()
        assert fetches.completed == []

    run_virtually(story())
