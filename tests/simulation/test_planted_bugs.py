"""Bugs planted in the nodes, one at a time: the simulator has to find each within a few seeds."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from penstock.broker.api import delete_records
from penstock.broker.control.lifecycle import BrokerLifecycle
from penstock.broker.following import following
from penstock.broker.partitions import leadership
from penstock.broker.partitions.replica_manager import ReplicaManager
from penstock.broker.partitions.replicated_partition import ReplicatedPartition
from penstock.consensus import voting
from penstock.coordinators.group import expiration, offset_fetch
from penstock.metadata.controller import leadership as controller_leadership
from penstock.metadata.image import MetadataImage
from penstock.metadata.image.acls import AclsImage
from penstock.protocol.messages import DelegationTokenRecord, Message, RemoveAccessControlEntryRecord
from penstock.security.acls import Acl
from penstock.security.authorizer import Authorizer
from penstock.security.permissions import OwnPermissions
from penstock.testing.simulator import faults, run, scenario
from penstock.testing.simulator.__main__ import run_seed
from penstock.testing.simulator.layout import Layout

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("PENSTOCK_PLANTED_BUGS"),
        reason="minutes: PENSTOCK_PLANTED_BUGS=1, or make soak-simulation",
    ),
    pytest.mark.timeout(900),  # forty seeds in a row, on a machine that has other work
]

SEEDS_MAX = 40
THREE = Layout((1, 2, 3), (1, 2, 3))
TOPICS: dict[str, Any] = {"topics_change": True, "members": 2}
RECORDS: dict[str, Any] = {"deletes_records": True, "fault_pause_s": 1.0}
DIRECTORIES: dict[str, Any] = {"log_directories": 2}
GUESTS: dict[str, Any] = {"has_guests": True}

Planted = tuple[str, dict[str, Any]]
"""The kind of fault that brings a bug to light, and the other conditions it needs."""


def commits_what_only_the_leader_has(patch: pytest.MonkeyPatch) -> Planted:
    def at_the_log_end(self: leadership.Leadership, log_end_offset: int, *_: object) -> int:
        return log_end_offset

    patch.setattr(leadership.Leadership, "high_watermark", at_the_log_end)
    return "kill", {}


def follower_keeps_what_its_leader_does_not_have(patch: pytest.MonkeyPatch) -> Planted:
    def nowhere(epochs: object, log_end_offset: int, *_: object) -> int:
        return log_end_offset

    patch.setattr(following, "truncation_offset", nowhere)
    return "isolate", {}


def every_stop_passes_for_a_clean_one(patch: pytest.MonkeyPatch) -> Planted:
    changes = controller_leadership._changes

    def change(state: object, places: object, **who: int) -> object:
        return [] if "uncleanly_stopped" in who else changes(state, places, **who)  # type: ignore[arg-type]

    patch.setattr(controller_leadership, "_changes", change)
    return "power cut", {}


def voters_vote_for_whoever_asks(patch: pytest.MonkeyPatch) -> Planted:
    patch.setattr(voting, "_can_grant", lambda raft, request: True)
    return "isolate", {}


def offsets_outlive_their_topic(patch: pytest.MonkeyPatch) -> Planted:
    patch.setattr(expiration, "handle_topic_deleted", lambda shard, topic, topic_id: [])
    patch.setattr(offset_fetch, "_is_of_another_topic", lambda committed_id, asked_id: False)
    return "stop", TOPICS


def logs_outlive_their_topic(patch: pytest.MonkeyPatch) -> Planted:
    patch.setattr(ReplicaManager, "_delete", lambda self, topic, partition: None)
    return "stop", TOPICS


def followers_keep_deleted_records(patch: pytest.MonkeyPatch) -> Planted:
    follow = ReplicatedPartition.follow_offsets

    def follow_high_watermark(self: ReplicatedPartition, high_watermark: int, _: int) -> None:
        follow(self, high_watermark, 0)

    def own_start(self: ReplicatedPartition) -> int:
        return self.replica.log.log_start_offset

    patch.setattr(ReplicatedPartition, "follow_offsets", follow_high_watermark)
    patch.setattr(ReplicatedPartition, "low_watermark", property(own_start))
    return "stop", RECORDS


def more_records_are_deleted_than_asked_for(patch: pytest.MonkeyPatch) -> Planted:
    delete_before = delete_records._delete_before

    def one_more(broker: object, topic: str, partition: int, offset: int) -> object:
        replica, _ = delete_before(broker, topic, partition, offset)  # type: ignore[arg-type]
        return replica, replica.log.delete_records_before(min(offset + 1, replica.high_watermark))

    patch.setattr(delete_records, "_delete_before", one_more)
    return "stop", RECORDS


def nobody_is_told_of_a_failed_directory(patch: pytest.MonkeyPatch) -> Planted:
    patch.setattr(BrokerLifecycle, "directory_failed", lambda self, directory_id: None)
    return "log directory", DIRECTORIES


def decisions_outlive_the_acls_that_made_them(patch: pytest.MonkeyPatch) -> Planted:
    put = Authorizer.put

    def put_silently(self: Authorizer, acl_id: bytes, acl: Acl | None) -> None:
        version = self.version
        put(self, acl_id, acl)
        self.version = version

    patch.setattr(Authorizer, "put", put_silently)
    return "stop", GUESTS


def deleted_acls_return_with_snapshots(patch: pytest.MonkeyPatch) -> Planted:
    remove = AclsImage.remove

    def remove_from_memory(self: AclsImage, record: RemoveAccessControlEntryRecord) -> None:
        records = dict(self._records)
        remove(self, record)
        self._records = records

    patch.setattr(AclsImage, "remove", remove_from_memory)
    return "stop", GUESTS


def snapshots_lack_delegation_tokens(patch: pytest.MonkeyPatch) -> Planted:
    records = MetadataImage.records

    def without_tokens(self: MetadataImage) -> Iterator[Message]:
        return (record for record in records(self) if not isinstance(record, DelegationTokenRecord))

    patch.setattr(MetadataImage, "records", without_tokens)
    return "stop", GUESTS


def a_node_opens_its_own_envelopes_without_permissions(patch: pytest.MonkeyPatch) -> Planted:
    patch.setattr(OwnPermissions, "on_behalf_of", lambda self, *_: self)
    return "isolate", GUESTS


PLANTED = [
    commits_what_only_the_leader_has,
    follower_keeps_what_its_leader_does_not_have,
    every_stop_passes_for_a_clean_one,
    voters_vote_for_whoever_asks,
    offsets_outlive_their_topic,
    logs_outlive_their_topic,
    followers_keep_deleted_records,
    more_records_are_deleted_than_asked_for,
    nobody_is_told_of_a_failed_directory,
    decisions_outlive_the_acls_that_made_them,
    deleted_acls_return_with_snapshots,
    snapshots_lack_delegation_tokens,
    a_node_opens_its_own_envelopes_without_permissions,
]


def focus(patch: pytest.MonkeyPatch, kind: str, needs: dict[str, Any]) -> None:
    """Draw scenarios with three nodes and many faults of one kind."""
    drawn = scenario.Scenario.of

    def of(rng: Random) -> scenario.Scenario:
        return replace(drawn(rng), **{"layout": THREE, "fault_pause_s": 0.5, **needs})

    patch.setattr(faults, "KINDS", {kind: 1, "cut connections": 1})
    patch.setattr(scenario.Scenario, "of", of)
    patch.setattr(run, "RECOVERY_S", 20.0)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], Planted], monkeypatch: pytest.MonkeyPatch
) -> None:
    focus(monkeypatch, *plant(monkeypatch))
    failures = (run_seed(seed).failure for seed in range(SEEDS_MAX))
    assert next((failure for failure in failures if failure is not None), None) is not None


@pytest.mark.parametrize(
    ("kind", "needs"),
    [
        ("kill", {}),
        ("isolate", {}),
        ("power cut", {}),
        ("stop", TOPICS),
        ("stop", RECORDS),
        ("log directory", DIRECTORIES),
        ("isolate", GUESTS),
    ],
)
def test_where_no_bug_is_planted_none_is_found(
    kind: str, needs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    focus(monkeypatch, kind, needs)
    assert [str(report) for report in map(run_seed, range(6)) if report.failure is not None] == []
