"""Bugs that are put into the nodes, one at a time: the simulator has to find each within a few seeds."""

import os
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from penstock.broker.replication import following, leadership
from penstock.consensus import voting
from penstock.metadata.controller import leadership as controller_leadership
from penstock.testing.simulator import faults, scenario
from penstock.testing.simulator.__main__ import run_seed
from penstock.testing.simulator.layout import Layout

pytestmark = pytest.mark.skipif(
    not os.environ.get("PENSTOCK_PLANTED_BUGS"),
    reason="a minute: PENSTOCK_PLANTED_BUGS=1, or make soak-simulation",
)

SEEDS_MAX = 40
THREE = Layout((1, 2, 3), (1, 2, 3))


def commits_what_only_the_leader_has(patch: pytest.MonkeyPatch) -> str:
    def at_the_log_end(self: leadership.Leadership, log_end_offset: int, *_: object) -> int:
        return log_end_offset

    patch.setattr(leadership.Leadership, "high_watermark", at_the_log_end)
    return "kill"


def follower_keeps_what_its_leader_does_not_have(patch: pytest.MonkeyPatch) -> str:
    def nowhere(epochs: object, log_end_offset: int, *_: object) -> int:
        return log_end_offset

    patch.setattr(following, "truncation_offset", nowhere)
    return "isolate"


def every_stop_passes_for_a_clean_one(patch: pytest.MonkeyPatch) -> str:
    changes = controller_leadership._changes

    def change(state: object, places: object, **who: int) -> object:
        return [] if "uncleanly_stopped" in who else changes(state, places, **who)  # type: ignore[arg-type]

    patch.setattr(controller_leadership, "_changes", change)
    return "power cut"


def voters_vote_for_whoever_asks(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(voting, "_can_grant", lambda raft, request: True)
    return "isolate"


PLANTED = [
    commits_what_only_the_leader_has,
    follower_keeps_what_its_leader_does_not_have,
    every_stop_passes_for_a_clean_one,
    voters_vote_for_whoever_asks,
]


def focus(patch: pytest.MonkeyPatch, kind: str) -> None:
    """Three nodes, many faults of one kind."""
    drawn = scenario.Scenario.of

    def of(rng: Random) -> scenario.Scenario:
        return replace(drawn(rng), layout=THREE, fault_pause_s=0.5)

    patch.setattr(faults, "KINDS", {kind: 1, "cut connections": 1})
    patch.setattr(scenario.Scenario, "of", of)
    patch.setattr(scenario, "RECOVERY_S", 20.0)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    focus(monkeypatch, plant(monkeypatch))
    failures = (run_seed(seed).failure for seed in range(SEEDS_MAX))
    assert next((failure for failure in failures if failure is not None), None) is not None


@pytest.mark.parametrize("kind", ["kill", "isolate", "power cut"])
def test_where_no_bug_is_planted_none_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    focus(monkeypatch, kind)
    assert [str(report) for report in map(run_seed, range(6)) if report.failure is not None] == []
