"""The nodes that hold each partition."""

from __future__ import annotations

import pytest

from penstock.views.routes import Routes

NODES = [f"http://10.0.0.{n}:8066" for n in range(1, 6)]


@pytest.mark.parametrize("count", [1, 3, 8, 50])
@pytest.mark.parametrize("members", [1, 2, 3, 5])
@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_every_partition_has_its_holders_and_nobody_more_than_a_share(
    count: int, members: int, standbys: int
) -> None:
    routes = Routes(frozenset(NODES[:members]), standbys)
    firsts: dict[str, int] = {}
    for partition in range(count):
        holders = routes.holders(partition, count)
        assert len(set(holders)) == len(holders) == min(members, 1 + standbys)
        firsts[holders[0]] = firsts.get(holders[0], 0) + 1
    assert max(firsts.values()) <= -(-count // members)
    held = [routes.held_by(member, count) for member in NODES[:members]]
    assert sum(map(len, held)) == count * min(members, 1 + standbys)


def test_a_standby_takes_over_and_most_partitions_stay() -> None:
    whole = Routes(frozenset(NODES), standbys=1)
    for gone in NODES:
        rest = Routes(frozenset(NODES) - {gone}, standbys=1)
        moved = 0
        for partition in range(50):
            first, second = whole.holders(partition, 50)
            now = rest.holders(partition, 50)
            moved += first != now[0]
            if first == gone:
                assert now[0] != gone
            moved_away = {first, second} - {gone} - set(now)
            assert len(moved_away) <= 1
        assert moved <= 25  # at least 10 have to move


def test_nobody_holds_anything_without_members() -> None:
    assert Routes().holders(2, 3) == ()
    assert Routes().held_by(NODES[0], 3) == frozenset()
