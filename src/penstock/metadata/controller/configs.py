"""Changes to the dynamic configs of topics, brokers, groups and client metrics subscriptions.

IncrementalAlterConfigs (KIP-339) changes the configs it names; the older AlterConfigs replaces all configs of
a resource. Each resource succeeds or fails separately. Codes and messages are Kafka's: broker configs fail
with INVALID_REQUEST, all others with INVALID_CONFIG.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias, TypeVar

from penstock.metadata.configs import (
    BrokerConfig,
    ConfigType,
    InvalidConfig,
    UpdateMode,
    validate_topic_config,
)
from penstock.metadata.configs.cleaner import check_cleaner_change
from penstock.metadata.configs.cordoned import CORDONED_LOG_DIRS
from penstock.metadata.configs.definition import ConfigKey, split_list
from penstock.metadata.configs.reference import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    broker_key,
)
from penstock.metadata.controller.activation import MIN_INSYNC_REPLICAS
from penstock.metadata.controller.features import CORDONED_DIRECTORIES_LEVEL
from penstock.metadata.controller.state import ControllerState, Decision, Refusal, repeated
from penstock.metadata.controller.topic_names import check_topic_name
from penstock.metadata.image import ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ClearElrRecord,
    ConfigRecord,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    Message,
)

R = TypeVar(
    "R", AlterConfigsRequest.AlterConfigsResource, IncrementalAlterConfigsRequest.AlterConfigsResource
)
A = TypeVar("A")

Unauthorized: TypeAlias = Mapping[tuple[int, str], ErrorCode]
"""Resources that a client may not change, by type and name, with the error to answer."""


VALUE_BYTES_MAX: Final = 32767
"""Limits a value in UTF-8, since Kafka cannot write longer strings to its metadata log.

Kafka 4.3 compares the number of UTF-16 code units. A value of fewer units and too many bytes then fails there
with UNKNOWN_SERVER_ERROR.
"""


class AlterOp(IntEnum):
    """The operation of an incremental change."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    op: int
    value: str | None


class _Owner(NamedTuple):
    """A kind of resource: its keys, and the checks of one resource, in the order in which Kafka has them."""

    keys: Mapping[str, ConfigKey]
    check_name: Callable[[str], None]
    check_configs: Callable[[ControllerState, str, Mapping[str, str]], None]
    check_exists: Callable[[ControllerState, str], None] | None = None


def incremental_alter_configs(
    state: ControllerState,
    request: IncrementalAlterConfigsRequest,
    *,
    is_forwarded: bool = True,
    unauthorized: Unauthorized | None = None,
) -> Decision[IncrementalAlterConfigsResponse]:
    """Set, delete, append to or subtract from single configs.

    ``is_forwarded`` means that a broker has already checked its own configs and forwarded the rest.
    ``unauthorized`` are the resources that the client may not change.
    """

    def change(resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> list[Message]:
        changes = [ConfigChange(c.name, c.config_operation, c.value) for c in resource.configs]
        records = alter_resource(state, resource.resource_type, resource.resource_name, changes)
        return _checked(state, records, is_forwarded=is_forwarded)

    make = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    records, responses = _each_by_itself(request.resources, unauthorized or {}, change, make)
    records += forget_eligible_leaders(state, records)
    return Decision(
        [] if request.validate_only else records, IncrementalAlterConfigsResponse(responses=responses)
    )


def alter_configs(
    state: ControllerState,
    request: AlterConfigsRequest,
    *,
    is_forwarded: bool = True,
    unauthorized: Unauthorized | None = None,
) -> Decision[AlterConfigsResponse]:
    """Replace all configs of each resource; configs that the request does not name are deleted."""

    def change(resource: AlterConfigsRequest.AlterConfigsResource) -> list[Message]:
        changes = [ConfigChange(c.name, AlterOp.SET, c.value) for c in resource.configs]
        records = replace_resource(state, resource.resource_type, resource.resource_name, changes)
        return _checked(state, records, is_forwarded=is_forwarded)

    make = AlterConfigsResponse.AlterConfigsResourceResponse
    records, responses = _each_by_itself(request.resources, unauthorized or {}, change, make)
    records += forget_eligible_leaders(state, records)
    return Decision([] if request.validate_only else records, AlterConfigsResponse(responses=responses))


def _checked(state: ControllerState, records: list[Message], *, is_forwarded: bool) -> list[Message]:
    """Return the records of one resource if they may be written. Raises Refusal."""
    for record in records:
        if not isinstance(record, ConfigRecord) or not record.value:
            continue
        if len(record.value.encode()) > VALUE_BYTES_MAX:
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{VALUE_BYTES_MAX} bytes.",
            )
        if record.name == CORDONED_LOG_DIRS and not is_forwarded:
            _check_only_fewer(state, record)
    return records


def _check_only_fewer(state: ControllerState, record: ConfigRecord) -> None:
    """Check that no directory is added: controllers do not know brokers' paths, brokers do (KIP-1066)."""
    now = state.image.configs.of(ResourceType.BROKER, record.resource_name).get(CORDONED_LOG_DIRS, "")
    if not set(split_list(record.value or "")) <= set(split_list(now)):
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"When updating {CORDONED_LOG_DIRS} via controllers,  the new value must be a subset of the "
            "current configuration value.",
        )


def _each_by_itself(
    resources: Sequence[R],
    unauthorized: Unauthorized,
    change: Callable[[R], list[Message]],
    make: Callable[..., A],
) -> tuple[list[Message], list[A]]:
    """Change each resource separately; return the records of the allowed changes, and a response to each."""
    records: list[Message] = []
    answers = []
    duplicates = set(repeated((r.resource_type, r.resource_name) for r in resources))
    for resource in resources:
        key = resource.resource_type, resource.resource_name
        code, message = ErrorCode.NONE, None
        try:
            _check_once(key, duplicates)
            if key in unauthorized:
                raise Refusal(unauthorized[key], unauthorized[key].default_message)
            records += change(resource)
        except Refusal as refusal:
            code, message = refusal.code, refusal.message
        answers.append(
            make(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return records, answers


def forget_eligible_leaders(state: ControllerState, records: Iterable[Message]) -> list[Message]:
    """Clear eligible leaders after a change of ``min.insync.replicas``.

    Under the new value they may lack records that will be committed (KIP-966).
    """
    if not state.elr_enabled:
        return []
    return [
        ClearElrRecord(topic_name=record.resource_name if record.resource_type == ResourceType.TOPIC else "")
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
    ]


def _check_once(resource: tuple[int, str], duplicates: set[tuple[int, str]]) -> None:
    if resource in duplicates:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def alter_resource(
    state: ControllerState, type_: int, name: str, changes: list[ConfigChange]
) -> list[Message]:
    """The records that apply ``changes`` to one resource; unchanged configs need none."""
    owner = _owner(type_)
    _check_changes(changes)
    now = state.image.configs.of(ResourceType(type_), name)
    wanted = {change.name: _wanted(owner, now, change) for change in changes}
    _check_configs(state, owner, type_, name, {**now, **wanted}, changed=wanted)
    return _config_records(type_, name, now, wanted)


def replace_resource(
    state: ControllerState, type_: int, name: str, changes: list[ConfigChange]
) -> list[Message]:
    """The records that leave one resource with exactly the configs in ``changes``."""
    owner = _owner(type_)
    _check_changes(changes)
    now = state.image.configs.of(ResourceType(type_), name)
    wanted = dict.fromkeys(now) | {change.name: change.value for change in changes}
    _check_configs(state, owner, type_, name, wanted, changed=wanted)
    return _config_records(type_, name, now, wanted)


def _owner(type_: int) -> _Owner:
    owner = _OWNERS.get(type_)
    if owner is None:
        if type_ == ResourceType.BROKER_LOGGER:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Only IncrementalAlterConfigs changes log levels.")
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {type_}.")
    return owner


def check_form(changes: Sequence[ConfigChange]) -> None:
    """Refuse a config that is changed twice, and a null value other than for a deletion."""
    if any(repeated(change.name for change in changes)):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [change.name for change in changes if change.value is None and change.op != AlterOp.DELETE]
    if missing:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}")


def _check_changes(changes: Sequence[ConfigChange]) -> None:
    check_form(changes)
    for change in changes:
        if change.op not in AlterOp.__members__.values():
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operation type {change.op}")


def _wanted(owner: _Owner, now: Mapping[str, str], change: ConfigChange) -> str | None:
    """The value of a config after one change; None if the change unsets it."""
    if change.op == AlterOp.DELETE:
        return None
    if change.op == AlterOp.SET:
        return change.value
    key = broker_key(change.name) if owner.keys is BROKER_KEYS else owner.keys.get(change.name)
    if key is None or key.type is not ConfigType.LIST:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Can't {AlterOp(change.op).name} to key {change.name} because its type is not LIST.",
        )
    items = split_list(now.get(change.name, key.default or ""))
    given = split_list(change.value or "")
    if change.op == AlterOp.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def _check_configs(
    state: ControllerState,
    owner: _Owner,
    type_: int,
    name: str,
    wanted: Mapping[str, str | None],
    changed: Mapping[str, str | None],
) -> None:
    owner.check_name(name)
    if type_ == ResourceType.BROKER:
        _check_dynamic(name, changed)
        _check_min_isr(state, name, changed)
        if CORDONED_LOG_DIRS in changed and state.image.metadata_version < CORDONED_DIRECTORIES_LEVEL:
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                f"The {CORDONED_LOG_DIRS} configuration value cannot be set because it requires "
                "metadata.version >= 4.3-IV0",
            )
    values = {key: value for key, value in wanted.items() if value is not None}
    try:
        owner.check_configs(state, name, values)
    except InvalidConfig as error:
        code = ErrorCode.INVALID_REQUEST if type_ == ResourceType.BROKER else ErrorCode.INVALID_CONFIG
        raise Refusal(code, str(error)) from None
    if owner.check_exists is not None:
        owner.check_exists(state, name)


def _config_records(
    type_: int, name: str, now: Mapping[str, str], wanted: Mapping[str, str | None]
) -> list[Message]:
    return [
        ConfigRecord(resource_type=type_, resource_name=name, name=key, value=value)
        for key, value in wanted.items()
        if now.get(key) != value
    ]


def _valid_topic(name: str) -> None:
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)


def _existing_topic(state: ControllerState, name: str) -> None:
    if name not in state.image.topics.by_name:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _topic_configs(state: ControllerState, _name: str, values: Mapping[str, str]) -> None:
    validate_topic_config(values, state.config())


def _valid_node(name: str) -> None:
    """Check that the name is the id of a node, or "" for all of them (KIP-226)."""
    if name:
        _parsed_node_id(name)


def _registered_node(state: ControllerState, name: str) -> None:
    if not name:
        return
    node_id = _parsed_node_id(name)
    nodes = state.image.brokers.keys() | state.image.cluster.controllers.keys() | state.controller_ids
    if node_id not in nodes:
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")


def check_broker_resource(node_id: int, name: str) -> None:
    """Check that ``name`` is "" or this broker's id, because a broker changes only its own configs."""
    if name:
        check_node_id(node_id, name, "Unexpected broker id, expected {0}, but received {1}")


def check_node_id(node_id: int, name: str, unexpected: str) -> None:
    """Check that ``name`` is this node's id, because only that node can check its own configs."""
    given = _parsed_node_id(name)
    if given != node_id:
        raise Refusal(ErrorCode.INVALID_REQUEST, unexpected.format(node_id, given))


def _parsed_node_id(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None


def _check_dynamic(broker: str, changed: Mapping[str, str | None]) -> None:
    """Check that the configs can change without a restart, and some of them only for a single broker."""
    fixed, needs_listener, needs_broker = [], [], []
    for name in changed:
        key = broker_key(name)
        if key is None:
            continue
        if key.update_mode is UpdateMode.READ_ONLY:
            fixed.append(name)
        elif name in _CONFIGS_OF_A_LISTENER:
            needs_listener.append(name)
        elif key.update_mode is UpdateMode.PER_BROKER and not broker:
            needs_broker.append(name)
    for names, message in (
        (fixed, "Cannot update these configs dynamically: "),
        (
            needs_listener,
            "These security configs can be dynamically updated only per-listener using the listener prefix: ",
        ),
        (
            needs_broker,
            "Cannot update these configs at default cluster level, broker id must be specified: ",
        ),
    ):
        if names:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{message}[{', '.join(sorted(names))}]")


def _check_min_isr(state: ControllerState, broker: str, changed: Mapping[str, str | None]) -> None:
    """Check that all brokers keep the same ``min.insync.replicas``, which the cluster must set (KIP-966)."""
    if not state.elr_enabled or MIN_INSYNC_REPLICAS not in changed:
        return
    if broker:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )
    if changed[MIN_INSYNC_REPLICAS] is None:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )


_CONFIGS_OF_A_LISTENER: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Stores that can be replaced while running, but only under the name of the listener they belong to."""


def _broker_configs(state: ControllerState, name: str, values: Mapping[str, str]) -> None:
    """Check the configs of a broker; unknown names are kept, as in Kafka, because plugins may read them.

    Checks that depend on a broker's static configs apply to this node alone.
    """
    for config, text in values.items():
        key = broker_key(config)
        if key is not None:
            key.parse(text)
    if not name or int(name) == state.static_config.node_id:
        _check_beside_static(state.config(), name, values)


def check_own_broker(
    broker: BrokerConfig, now: Mapping[str, str], name: str, changes: list[ConfigChange], *, replaces: bool
) -> BrokerConfig:
    """Check a change of this broker's configs, or of the default for all, on the broker itself.

    Only the broker knows its static configs and its current values. ``now`` holds the current configs of the
    resource ``name``, and ``replaces`` means that the change replaces all of them. Returns the configuration
    after the change. Raises Refusal, like Kafka's ConfigAdminManager.
    """
    _check_changes(changes)
    check_broker_resource(broker.node_id, name)
    owner = _OWNERS[ResourceType.BROKER]
    wanted = {change.name: _wanted(owner, now, change) for change in changes}
    _check_dynamic(name, wanted)
    then = wanted if replaces else {**now, **wanted}
    values = {config: value for config, value in then.items() if value is not None}
    try:
        for config, text in values.items():
            key = broker_key(config)
            if key is not None:
                key.parse(text)
        return _check_beside_static(broker, name, values)
    except InvalidConfig as error:
        raise Refusal(ErrorCode.INVALID_REQUEST, str(error)) from None


def _check_beside_static(now: BrokerConfig, name: str, values: Mapping[str, str]) -> BrokerConfig:
    """Return the configuration of a broker with ``now`` and these dynamic configs. Raises InvalidConfig."""
    for config in _THREAD_COUNTS:
        if name and config in values:
            _check_thread_count(now, config, values[config])
    default, own = (now.dynamic_default, values) if name else (values, now.dynamic_broker)
    then = now.with_dynamic(default, own)
    check_cleaner_change(now, then)
    _ = then.cordoned_log_dirs
    return then


_THREAD_COUNTS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)


def _check_thread_count(config: BrokerConfig, name: str, text: str) -> None:
    """Check that a pool at most doubles or halves per change."""
    now, wanted = config.get_int(name), int(text)
    problem = ""
    if wanted > 2 * now:
        problem = f"value should not be greater than double the current value {now}"
    elif wanted < now // 2:
        problem = f"value should be at least half the current value {now}"
    if problem:
        raise InvalidConfig(
            name, f"Dynamic thread count update validation failed for {name}={wanted}, {problem}"
        )


def _named_group(name: str) -> None:
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def _group_configs(state: ControllerState, _name: str, values: Mapping[str, str]) -> None:
    """Check that a group's configs stay within ``group.*.min`` and ``group.*.max`` of the broker."""
    config = state.config()
    for name, text in values.items():
        if name not in GROUP_KEYS:
            raise InvalidConfig(name, f"Unknown group config name: {name}")
        value = GROUP_KEYS[name].parse(text)
        kind, _, rest = name.partition(".")
        lowest, highest = (f"group.{kind}.{bound}.{rest.removeprefix('num.')}" for bound in ("min", "max"))
        if isinstance(value, int) and lowest in BROKER_KEYS and value < config.get_int(lowest):
            raise InvalidConfig(name, f"{name} must be greater than or equal to {lowest}")
        if isinstance(value, int) and highest in BROKER_KEYS and value > config.get_int(highest):
            raise InvalidConfig(name, f"{name} must be less than or equal to {highest}")
    for kind in ("consumer", "share", "streams"):
        _check_heartbeat(kind, values, config)


def _check_heartbeat(kind: str, values: Mapping[str, str], config: BrokerConfig) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    session_ms, heartbeat_ms = (
        int(values[name]) if name in values else config.get_int(f"group.{name}")
        for name in (session, heartbeat)
    )
    if session_ms <= heartbeat_ms:
        raise InvalidConfig(session, f"{session} must be greater than {heartbeat}")


def _named_subscription(name: str) -> None:
    if not name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")


_MATCH_PARAMETERS: Final = frozenset(
    (
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)


def _client_metrics_configs(_state: ControllerState, _name: str, values: Mapping[str, str]) -> None:
    """Check a subscription (KIP-714): pushes every 100 ms to an hour, patterns of known client properties."""
    for name, text in values.items():
        if name not in CLIENT_METRICS_KEYS:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
        CLIENT_METRICS_KEYS[name].parse(text)
    interval = values.get("interval.ms")
    if interval is not None and not 100 <= int(interval) <= 3_600_000:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        )
    for pattern in split_list(values.get("match", "")):
        parameter, separator, regex = pattern.partition("=")
        if not separator or parameter.strip() not in _MATCH_PARAMETERS or not _compiles(regex.strip()):
            raise InvalidConfig("match", f"Illegal client matching pattern: {pattern}")


def _compiles(regex: str) -> bool:
    try:
        re.compile(regex)
    except re.error:
        return False
    return True


_OWNERS: Final[Mapping[int, _Owner]] = {
    ResourceType.TOPIC: _Owner(TOPIC_KEYS, _valid_topic, _topic_configs, _existing_topic),
    ResourceType.BROKER: _Owner(BROKER_KEYS, _valid_node, _broker_configs, _registered_node),
    ResourceType.CLIENT_METRICS: _Owner(CLIENT_METRICS_KEYS, _named_subscription, _client_metrics_configs),
    ResourceType.GROUP: _Owner(GROUP_KEYS, _named_group, _group_configs),
}
