"""The times of kills."""

from __future__ import annotations

from penstock.demo.chaos import DELAY_MAX_S, Kill, Schedule, planned_kills


def test_a_seed_gives_kills_spread_over_the_run() -> None:
    kills = planned_kills(7, application=3, node=2)
    assert kills == planned_kills(7, application=3, node=2)
    assert kills != planned_kills(8, application=3, node=2)
    assert sorted(kill.victim for kill in kills) == ["application"] * 3 + ["node"] * 2
    shares = [kill.share for kill in kills]
    assert shares == sorted(shares)
    assert shares[0] > 0
    assert shares[-1] < 1
    assert planned_kills(7, application=0, node=0) == []


def test_a_kill_waits_for_its_share_and_then_for_its_delay() -> None:
    schedule = Schedule([Kill("application", 0.2, 1.0), Kill("node", 0.25, 0.0)])
    assert [*schedule.due(0.1, 100.0)] == []
    assert [*schedule.due(0.3, 101.0)] == []
    assert [*schedule.due(0.3, 101.9)] == []
    assert [kill.victim for kill in schedule.due(0.3, 102.0)] == ["application"]
    assert not schedule.is_over
    assert [kill.victim for kill in schedule.due(0.3, 102.1)] == ["node"]
    assert [*schedule.due(1.0, 999.0)] == []
    assert schedule.is_over
    assert DELAY_MAX_S > 0
