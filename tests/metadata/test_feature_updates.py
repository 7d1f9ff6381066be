"""Finalizing features: within the support of all nodes, in the requested direction."""

import pytest
from controller_bench import ControllerBench

from penstock.metadata.controller.feature_updates import UpgradeType, update_features
from penstock.metadata.controller.registration import register_controller
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ConfigRecord,
    ControllerRegistrationRequest,
    FeatureLevelRecord,
    NoOpRecord,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

ELR, MIN_ISR = "eligible.leader.replicas.version", "min.insync.replicas"
UPGRADE, SAFE, UNSAFE = UpgradeType


@pytest.fixture
def bench() -> ControllerBench:
    bench = ControllerBench()
    bench.image.features = {"metadata.version": 29, "transaction.version": 1}
    return bench


def update(
    bench: ControllerBench, *levels: tuple[str, int, int], version: int = 2, validate_only: bool = False
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in levels
        ],
        validate_only=validate_only,
    )
    return bench.do(update_features, request, version)


def test_a_feature_is_raised_and_lowered(bench: ControllerBench) -> None:
    response = update(bench, ("transaction.version", 2, UPGRADE), ("metadata.version", 30, UPGRADE))
    assert (response.error_code, response.error_message, response.results) == (0, None, [])
    assert bench.image.features == {"metadata.version": 30, "transaction.version": 2}
    assert update(bench, ("transaction.version", 0, SAFE)).error_code == 0
    assert bench.image.features == {"metadata.version": 30}


def test_old_clients_are_told_of_each_feature(bench: ControllerBench) -> None:
    response = update(bench, ("transaction.version", 2, UPGRADE), version=1)
    assert [(result.feature, result.error_code) for result in response.results] == [
        ("transaction.version", 0)
    ]


def test_a_trial_changes_nothing(bench: ControllerBench) -> None:
    assert update(bench, ("transaction.version", 2, UPGRADE), validate_only=True).error_code == 0
    assert bench.records == []


@pytest.mark.parametrize(
    ("name", "level", "kind", "words"),
    [
        ("transaction.version", 3, UPGRADE, "Local controller 1 only supports versions 0-2"),
        ("transaction.version", -1, SAFE, "A feature version cannot be less than 0."),
        ("transaction.version", 0, UPGRADE, "Can't downgrade the version of this feature without setting"),
        ("transaction.version", 2, UNSAFE, "Can't downgrade to a newer version."),
        ("transaction.version", 2, 0, "The controller does not support the given upgrade type."),
        ("group.version", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("nothing", 0, UPGRADE, "Feature nothing not found."),
        ("metadata.version", 28, UNSAFE, "Refusing to perform the requested downgrade"),
        ("kraft.version", 1, UPGRADE, "Can't change the version of this feature."),
    ],
)
def test_what_cannot_be(bench: ControllerBench, name: str, level: int, kind: int, words: str) -> None:
    response = update(bench, ("metadata.version", 30, UPGRADE), (name, level, kind))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"Invalid update version {level} for feature {name}. {words}" in response.error_message
    assert bench.records == [], "all or none"


def test_all_brokers_have_to_support_it() -> None:
    bench = ControllerBench(brokers=(1, 2))
    bench.image.features = {"metadata.version": 30}
    old = bench.image.cluster.brokers[2]
    object.__setattr__(old, "features", ())
    response = update(bench, ("transaction.version", 2, UPGRADE))
    assert "Broker 2 does not support this feature." in response.error_message


def test_all_controllers_have_to_support_it_and_to_have_said_so() -> None:
    bench = ControllerBench()
    bench.state.controller_ids = frozenset((1, 2))
    response = update(bench, ("transaction.version", 2, UPGRADE))
    said = response.error_message or ""
    assert "controller 2 has not registered, and may not support this feature" in said
    feature = ControllerRegistrationRequest.Feature(
        name="transaction.version", min_supported_version=0, max_supported_version=1
    )
    request = ControllerRegistrationRequest(controller_id=2, incarnation_id=bytes(16), features=[feature])
    bench.do(register_controller, request)
    response = update(bench, ("transaction.version", 2, UPGRADE))
    assert "Controller 2 only supports versions 0-1" in (response.error_message or "")
    assert update(bench, ("transaction.version", 1, UPGRADE)).error_code == 0


def test_eligible_leader_replicas_need_one_min_isr_for_all() -> None:
    """KIP-966"""
    bench = ControllerBench({"min.insync.replicas": "2"})
    bench.write(ConfigRecord(resource_type=4, resource_name="1", name=MIN_ISR, value="3"))
    bench.records.clear()
    assert update(bench, (ELR, 1, UPGRADE)).error_code == 0
    assert bench.records == [
        ConfigRecord(resource_type=4, resource_name="", name=MIN_ISR, value="2"),
        ConfigRecord(resource_type=4, resource_name="1", name=MIN_ISR, value=None),
        FeatureLevelRecord(name=ELR, feature_level=1),
    ]
    old = ControllerBench(metadata_version=22)
    said = update(old, (ELR, 1, UPGRADE)).error_message or ""
    assert "depends on metadata.version level 23" in said
    assert update(old, (ELR, 1, UPGRADE), ("metadata.version", 23, UPGRADE)).error_code == 0


def test_the_quorums_own_version_is_upgraded_by_the_quorum(bench: ControllerBench) -> None:
    asked: list[tuple[int, bool]] = []

    def upgrade(level: int, validate_only: bool) -> str | None:
        asked.append((level, validate_only))
        return "Not now." if validate_only else None

    bench.state.upgrade_kraft_version = upgrade
    assert update(bench, ("kraft.version", 1, UPGRADE)).error_code == 0
    assert bench.records == [NoOpRecord()]
    refused = update(bench, ("kraft.version", 1, UPGRADE), validate_only=True)
    assert "Invalid update version 1 for feature kraft.version. Not now." in (refused.error_message or "")
    assert asked == [(1, False), (1, True)]
    bench.state.kraft_version = 1
    said = update(bench, ("kraft.version", 0, SAFE)).error_message or ""
    assert "Can't change the version" in said


def test_the_record_is_kafkas(bench: ControllerBench) -> None:
    update(bench, ("transaction.version", 2, UPGRADE))
    assert bench.records == [FeatureLevelRecord(name="transaction.version", feature_level=2)]
