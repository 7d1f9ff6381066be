"""Bugs that are put into the nodes, one at a time: the simulator has to find each within a few seeds."""

from collections.abc import Callable

import pytest

from penstock.broker.quorum.metadata_log import MetadataLog
from penstock.broker.replication import following, leadership
from penstock.metadata.controller import leadership as controller_leadership
from penstock.testing.simulator.__main__ import run_seed

SEEDS_MAX = 40


def commits_what_only_the_leader_has(patch: pytest.MonkeyPatch) -> None:
    def at_the_log_end(self: leadership.Leadership, log_end_offset: int, *_: object) -> int:
        return log_end_offset

    patch.setattr(leadership.Leadership, "high_watermark", at_the_log_end)


def follower_keeps_what_its_leader_does_not_have(patch: pytest.MonkeyPatch) -> None:
    def nowhere(epochs: object, log_end_offset: int, *_: object) -> int:
        return log_end_offset

    patch.setattr(following, "truncation_offset", nowhere)


def every_stop_passes_for_a_clean_one(patch: pytest.MonkeyPatch) -> None:
    changes = controller_leadership._changes

    def change(state: object, places: object, **who: int) -> object:
        if "uncleanly_stopped" in who:
            who = {"remove": who["uncleanly_stopped"]}
        return changes(state, places, **who)  # type: ignore[arg-type]

    patch.setattr(controller_leadership, "_changes", change)


def votes_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MetadataLog, "write_election", lambda self, election: None)


PLANTED = [
    commits_what_only_the_leader_has,
    follower_keeps_what_its_leader_does_not_have,
    every_stop_passes_for_a_clean_one,
    votes_are_forgotten,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(run_seed(seed).failure is not None for seed in range(SEEDS_MAX))
