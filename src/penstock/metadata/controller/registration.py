"""The registration of brokers and controllers, their heartbeats, and fencing (KIP-631).

A broker registers fenced, with a new epoch, replays the metadata log up to its registration, and requests to
be unfenced. It sends heartbeats; the controller fences a broker that is silent for a session. A broker that
wants to stop requests it, loses its leaderships, and may stop once all other brokers know the new leaders.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from penstock.metadata.configs import SECURITY_PROTOCOLS
from penstock.metadata.controller import leadership
from penstock.metadata.controller.features import (
    CONTROLLER_REGISTRATION_LEVEL,
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORY_ASSIGNMENT_LEVEL,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from penstock.metadata.controller.state import ControllerState, Decision, Refusal
from penstock.metadata.image import RESERVED_DIRECTORIES, BrokerRegistration, Endpoint, FeatureRange
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationChangeRecord,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Message,
    RegisterControllerRecord,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from penstock.protocol.uuids import uuid_to_text

CLEAN_SHUTDOWN_SINCE: Final = 3
"""From this version of BrokerRegistration on, a broker reports the epoch in which it stopped cleanly."""


# Registration


def register_broker(
    state: ControllerState, request: BrokerRegistrationRequest, api_version: int, now_ms: int
) -> Decision[BrokerRegistrationResponse]:
    """Register a new incarnation of a broker, or update the registration of the current one.

    A new incarnation gets the offset of this decision's first record as its epoch. The records need not be
    one batch: the registration is the last of them, and the broker retries until it is written.
    """
    _check_cluster(state, request.cluster_id)
    existing = state.image.brokers.get(request.broker_id)
    is_new = existing is None or existing.incarnation_id != request.incarnation_id
    if existing is not None and is_new:
        _check_no_session(state, existing, now_ms)
    if request.is_migrating_zk_broker:
        raise Refusal(
            ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers."
        )
    has_directories = state.image.metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL
    if has_directories:
        _check_directories(state, request)
    _check_features(state, request)
    records: list[Message] = []
    if is_new:
        cleanly = (
            existing is not None
            and api_version >= CLEAN_SHUTDOWN_SINCE
            and existing.epoch == request.previous_broker_epoch
        )
        records = leadership.stopped(state, request.broker_id, cleanly=cleanly)
    unchanged = None if is_new else existing
    registration = BrokerRegistration(
        broker_id=request.broker_id,
        epoch=state.next_offset if unchanged is None else unchanged.epoch,
        incarnation_id=request.incarnation_id,
        endpoints=_endpoints(request.listeners),
        features=tuple(
            FeatureRange(f.name, f.min_supported_version, f.max_supported_version) for f in request.features
        ),
        rack=request.rack,
        fenced=unchanged is None or unchanged.fenced,
        in_controlled_shutdown=unchanged is not None and unchanged.in_controlled_shutdown,
        log_dirs=tuple(request.log_dirs) if has_directories else (),
        cordoned_log_dirs=None,
    )
    records.append(registration.to_record())
    return Decision(records, BrokerRegistrationResponse(broker_epoch=registration.epoch), is_atomic=False)


def _check_cluster(state: ControllerState, cluster_id: str) -> None:
    if cluster_id != state.cluster_id:
        raise Refusal(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {state.cluster_id}, but got cluster ID {cluster_id}",
        )


def _check_no_session(state: ControllerState, existing: BrokerRegistration, now_ms: int) -> None:
    if state.heartbeats.has_session(existing.broker_id, existing.epoch, now_ms):
        raise Refusal(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this "
            "should self-resolve once the heartbeat manager expires the broker's session.",
        )


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    if not request.log_dirs:
        raise _invalid_registration("No directories specified in request")
    if any(int.from_bytes(directory, "big") < RESERVED_DIRECTORIES for directory in request.log_dirs):
        raise _invalid_registration("Reserved directory ID in request")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise _invalid_registration("Duplicate directory ID in request")
    for directory in request.log_dirs:
        for broker in state.image.brokers.values():
            if broker.broker_id != request.broker_id and directory in broker.log_dirs:
                raise _invalid_registration(
                    f"Broker {broker.broker_id} is already registered with directory "
                    f"{uuid_to_text(directory)}"
                )


def _check_features(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    """Check that a broker supports every finalized feature at its level.

    Features that this controller does not support are exempt: a log that Apache Kafka started may have them
    finalized, and only Kafka's nodes serve them.
    """
    finalized = {**state.image.features, KRAFT_VERSION: state.kraft_version}
    supported = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    for name, (lowest, highest) in supported.items():
        _check_feature(name, finalized.get(name, 0), lowest, highest)
    if METADATA_VERSION not in supported:
        raise _invalid_registration(f"Request features do not contain '{METADATA_VERSION}'")
    own = {feature.name for feature in SUPPORTED_FEATURES}
    for name in sorted((finalized.keys() & own) - supported.keys()):
        _check_feature(name, finalized[name], 0, 0)


def _check_feature(name: str, level: int, lowest: int, highest: int) -> None:
    if not lowest <= level <= highest:
        raise Refusal(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unable to register because the broker does not support finalized version {level} of {name}. "
            f"The broker wants a version between {lowest} and {highest}, inclusive.",
        )


def _endpoints(
    listeners: Sequence[BrokerRegistrationRequest.Listener | ControllerRegistrationRequest.Listener],
) -> tuple[Endpoint, ...]:
    for listener in listeners:
        if listener.security_protocol not in SECURITY_PROTOCOLS.values():
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Unknown security protocol {listener.security_protocol} in listener {listener.name}",
            )
    return tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in listeners)


def _invalid_registration(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REGISTRATION, message)


def register_controller(
    state: ControllerState, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Record a controller's addresses and features (KIP-919)."""
    if state.image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        raise Refusal(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            RegisterControllerRecord.ControllerEndpoint(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in _endpoints(request.listeners)
        ],
        features=[
            RegisterControllerRecord.ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    return Decision([record], ControllerRegistrationResponse(error_message=""))


def unregister_broker(
    state: ControllerState, request: UnregisterBrokerRequest
) -> Decision[UnregisterBrokerResponse]:
    """Remove a broker that will not return (KIP-732)."""
    if request.broker_id not in state.image.brokers:
        raise Refusal(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    records = leadership.unregister(state, request.broker_id)
    return Decision(records, UnregisterBrokerResponse(error_message=None), is_atomic=False)


def check_broker_epoch(state: ControllerState, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """The registration of a broker in its current incarnation. Raises Refusal STALE_BROKER_EPOCH."""
    broker = state.image.brokers.get(broker_id)
    if broker is None:
        raise Refusal(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        raise Refusal(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
        )
    return broker


# Heartbeats


class BrokerState(Enum):
    """The states of a broker between registration and stop."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    """The broker is unfenced, and its leaderships are being moved."""
    SHUTDOWN_NOW = auto()
    """The broker is fenced for good and may stop."""


class _Move(NamedTuple):
    now: BrokerState
    next: BrokerState


def process_heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest, now_ms: int
) -> Decision[BrokerHeartbeatResponse]:
    """Process a heartbeat: renew the session, note the replayed offset, and decide on the next state."""
    broker = check_broker_epoch(state, request.broker_id, request.broker_epoch)
    heartbeats = state.heartbeats
    heartbeats.heard_of(broker.broker_id, broker.epoch, now_ms)
    registered_at = heartbeats.registration_offset(broker.broker_id)
    move = _Move(_broker_state(state, broker), _next_state(state, broker, request))
    records = [] if move.now is move.next else _records_of(state, broker.broker_id, move.next)
    fenced = move.next in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)
    heartbeats.touch(broker.broker_id, fenced, request.current_metadata_offset)
    if state.image.metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL:
        records += leadership.lose_directories(state, broker.broker_id, request.offline_log_dirs)
    if state.image.metadata_version >= CORDONED_DIRECTORIES_LEVEL:
        records += _cordon(broker, request.cordoned_log_dirs)
    if move.next is BrokerState.CONTROLLED_SHUTDOWN:
        heartbeats.begin_controlled_shutdown(broker.broker_id, state.next_offset + len(records) - 1)
    elif move.next is BrokerState.SHUTDOWN_NOW:
        heartbeats.end_session(broker.broker_id)
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= registered_at,
        is_fenced=fenced,
        should_shut_down=move.next is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(records, response, is_atomic=False)


def _broker_state(state: ControllerState, broker: BrokerRegistration) -> BrokerState:
    if state.heartbeats.is_shutting_down(broker.broker_id):
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.FENCED if broker.fenced else BrokerState.UNFENCED


def _next_state(
    state: ControllerState, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> BrokerState:
    match _broker_state(state, broker):
        case BrokerState.FENCED:
            if request.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            registered_at = state.heartbeats.registration_offset(broker.broker_id)
            caught_up = request.current_metadata_offset >= registered_at
            return BrokerState.UNFENCED if caught_up and not request.want_fence else BrokerState.FENCED
        case BrokerState.UNFENCED:
            if request.want_fence:
                return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
            if not request.want_shut_down:
                return BrokerState.UNFENCED
            if leadership.leads_any(state, broker.broker_id):
                return BrokerState.CONTROLLED_SHUTDOWN
            return BrokerState.SHUTDOWN_NOW
    return BrokerState.SHUTDOWN_NOW if _may_stop(state, broker.broker_id) else BrokerState.CONTROLLED_SHUTDOWN


def _may_stop(state: ControllerState, broker_id: int) -> bool:
    """Whether the broker leads nothing, and every other active broker has replayed the new leaders."""
    if leadership.leads_any(state, broker_id):
        return False
    heartbeats = state.heartbeats
    others = (
        other.broker_id
        for other in state.image.brokers.values()
        if not other.fenced and not heartbeats.is_shutting_down(other.broker_id)
    )
    lowest_offset = heartbeats.lowest_offset(others)
    return lowest_offset is None or heartbeats.controlled_shutdown_offset(broker_id) <= lowest_offset


def _records_of(state: ControllerState, broker_id: int, next_state: BrokerState) -> list[Message]:
    match next_state:
        case BrokerState.UNFENCED:
            return leadership.unfence(state, broker_id)
        case BrokerState.CONTROLLED_SHUTDOWN:
            return leadership.begin_controlled_shutdown(state, broker_id)
    return leadership.fence(state, broker_id)


def _cordon(broker: BrokerRegistration, cordoned: list[bytes] | None) -> list[Message]:
    """Record the directories that take no new replicas; a broker that is not caught up sends null."""
    if cordoned is None:
        return []
    if broker.cordoned_log_dirs is not None and set(broker.cordoned_log_dirs) == set(cordoned):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
        )
    ]


def fence_one_stale_broker(state: ControllerState, now_ms: int) -> Decision[bool]:
    """Fence the broker that has been silent the longest if its session expired; return whether there was one.

    Only one broker is fenced per call, because the effect depends on the brokers fenced before.
    """
    expired = state.heartbeats.pop_expired(now_ms)
    if expired is None:
        return Decision([], False)
    broker_id, broker_epoch = expired
    broker = state.image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        return Decision([], True)
    return _fence_silent(state, broker_id)


def fence_ended_broker(state: ControllerState, broker_id: int, broker_epoch: int) -> Decision[bool]:
    """Fence a broker whose process has ended; return False if this registration was already fenced."""
    broker = state.image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch or broker.fenced:
        return Decision([], False)
    state.heartbeats.end_session(broker_id)
    return _fence_silent(state, broker_id)


def _fence_silent(state: ControllerState, broker_id: int) -> Decision[bool]:
    records = leadership.fence(state, broker_id)
    state.heartbeats.touch(broker_id, True, -1)
    return Decision(records, True, is_atomic=False)
