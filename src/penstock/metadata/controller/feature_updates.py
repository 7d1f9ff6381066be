"""UpdateFeatures: administrators raise or lower the finalized level of a feature (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from penstock.metadata.controller.activation import MIN_INSYNC_REPLICAS, cluster_min_isr
from penstock.metadata.controller.features import (
    CONTROLLER_REGISTRATION_LEVEL,
    DEPENDENCIES,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    NOT_SERVED_YET,
    SUPPORTED_FEATURES,
)
from penstock.metadata.controller.state import ControllerState, Decision, Refusal
from penstock.metadata.image import FeatureRange, ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ConfigRecord,
    FeatureLevelRecord,
    Message,
    NoOpRecord,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

LAST_VERSION_WITH_RESULTS: Final = 1
"""The last API version with one result per feature; later responses have one error for the whole request."""


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    state: ControllerState, request: UpdateFeaturesRequest, api_version: int
) -> Decision[UpdateFeaturesResponse]:
    """Update all features of the request or none."""
    records: list[Message] = []
    proposed = {update.feature: update.max_version_level for update in request.feature_updates}
    try:
        for update in request.feature_updates:
            if update.feature == KRAFT_VERSION and update.upgrade_type == UpgradeType.UPGRADE:
                records += _upgrade_kraft(state, update.max_version_level, request.validate_only)
                continue
            records += _update(state, update.feature, update.max_version_level, update.upgrade_type, proposed)
    except Refusal as refusal:
        message = f"The update failed for all features since the following feature had an error: {refusal}"
        return Decision([], UpdateFeaturesResponse(error_code=refusal.code, error_message=message))
    if proposed.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        records = [*_one_min_isr(state), *records]
    response = UpdateFeaturesResponse(error_message=None)
    if api_version <= LAST_VERSION_WITH_RESULTS:
        result = UpdateFeaturesResponse.UpdatableFeatureResult
        response.results = [
            result(feature=update.feature, error_message=None) for update in request.feature_updates
        ]
    return Decision([] if request.validate_only else records, response)


def _update(
    state: ControllerState, name: str, level: int, upgrade_type: int, proposed: Mapping[str, int]
) -> list[Message]:
    current = state.kraft_version if name == KRAFT_VERSION else state.image.features.get(name, 0)
    problem = (
        _why_not_supported(state, name, level)
        or _why_not_this_way(level, current, upgrade_type)
        or _why_not_this_feature(name, level, current)
        or _why_not_without_others(name, level, {**state.image.features, **proposed})
    )
    if problem:
        raise _invalid(name, level, problem)
    if name == KRAFT_VERSION:
        return []  # the level is unchanged; records of the quorum itself hold it
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _upgrade_kraft(state: ControllerState, level: int, validate_only: bool) -> list[Message]:
    """Upgrade the quorum's own feature (KIP-853); the returned no-op record lets the caller wait for it."""
    problem = _why_not_supported(state, KRAFT_VERSION, level) or _why_not_this_way(
        level, state.kraft_version, UpgradeType.UPGRADE
    )
    if problem is None and level != state.kraft_version:
        if state.upgrade_kraft_version is None:
            problem = "Can't change the version of this feature."
        else:
            problem = state.upgrade_kraft_version(level, validate_only)
    if problem:
        raise _invalid(KRAFT_VERSION, level, problem)
    return [NoOpRecord()]


def _invalid(name: str, level: int, problem: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {problem}"
    )


def _one_min_isr(state: ControllerState) -> list[ConfigRecord]:
    """Give all brokers the same ``min.insync.replicas`` from now on, while topics keep theirs (KIP-966)."""
    configs = state.image.configs
    has_one = MIN_INSYNC_REPLICAS in configs.of(ResourceType.BROKER, "")
    records = [] if has_one else [cluster_min_isr(state)]
    records += [
        ConfigRecord(
            resource_type=ResourceType.BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=None
        )
        for broker in configs.names(ResourceType.BROKER)
        if broker and MIN_INSYNC_REPLICAS in configs.of(ResourceType.BROKER, broker)
    ]
    return records


def _why_not_supported(state: ControllerState, name: str, level: int) -> str | None:
    if level < 0:
        return "A feature version cannot be less than 0."
    own_id, cluster = state.static_config.node_id, state.image.cluster
    supporters: dict[str, tuple[FeatureRange, ...]] = {f"Local controller {own_id}": SUPPORTED_FEATURES}
    for broker in cluster.brokers.values():
        supporters[f"Broker {broker.broker_id}"] = broker.features
    if state.image.metadata_version >= CONTROLLER_REGISTRATION_LEVEL:
        for controller in cluster.controllers.values():
            if controller.controller_id != own_id:
                supporters[f"Controller {controller.controller_id}"] = tuple(
                    FeatureRange(f.name, f.min_supported_version, f.max_supported_version)
                    for f in controller.features
                )
    for supporter, features in supporters.items():
        supported = next((feature for feature in features if feature.name == name), FeatureRange(name, 0, 0))
        if not supported.min_level <= level <= supported.max_level:
            if not supported.max_level:
                return f"{supporter} does not support this feature."
            return f"{supporter} only supports versions {supported.min_level}-{supported.max_level}"
    if state.image.metadata_version >= CONTROLLER_REGISTRATION_LEVEL:
        for unheard in sorted(state.controller_ids - {own_id} - cluster.controllers.keys()):
            return f"controller {unheard} has not registered, and may not support this feature"
    return None


def _why_not_this_way(level: int, current: int, upgrade_type: int) -> str | None:
    if upgrade_type not in UpgradeType.__members__.values():
        return "The controller does not support the given upgrade type."
    if level < current and upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _why_not_this_feature(name: str, level: int, current: int) -> str | None:
    """Explain why a level cannot fall: metadata would be lost, and kraft.version can only rise."""
    if name not in NOT_SERVED_YET and all(feature.name != name for feature in SUPPORTED_FEATURES):
        return f"Feature {name} not found."
    if name == METADATA_VERSION and level < current:
        return "Refusing to perform the requested downgrade because it might delete metadata information."
    if name == KRAFT_VERSION and level != current:
        return "Can't change the version of this feature."
    return None


def _why_not_without_others(name: str, level: int, features: Mapping[str, int]) -> str | None:
    for needed, lowest in DEPENDENCIES.get((name, level), {}).items():
        if features.get(needed, 0) < lowest:
            return f"{name} could not be set to {level} because it depends on {needed} level {lowest}"
    return None
