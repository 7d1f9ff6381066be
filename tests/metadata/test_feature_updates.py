"""Finalizing features: as far as all nodes support it, in the direction that was asked for."""

import pytest
from controller_bench import ControllerBench

from penstock.metadata.controller.feature_updates import UpgradeType, update_features
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FeatureLevelRecord, UpdateFeaturesRequest, UpdateFeaturesResponse

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


def test_the_record_is_kafkas(bench: ControllerBench) -> None:
    update(bench, ("transaction.version", 2, UPGRADE))
    assert bench.records == [FeatureLevelRecord(name="transaction.version", feature_level=2)]
