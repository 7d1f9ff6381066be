"""Random requests of every API that a node serves, and random ACLs, from one seed.

A request is drawn from its definition field by field: `POOLS` has the values of a field, and `SHAPES` makes
the fields of a struct fit together. It is kept as a `Plan`, because the same request has another topic id or
producer id at each node: a `Ref` stands for such a value until the request is built for one of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.definition import Field, Struct
from penstock.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

USERS: Final = ("ann", "bob", "carl")
SOURCES: Final = ("127.0.0.1", "127.0.0.2")
TOPICS: Final = {"t-a": 2, "t-b": 1, "u": 1}
"""The topics that exist at the beginning of a round, and their partitions."""
GROUPS: Final = ("g-a", "g-b")
TRANSACTIONS: Final = ("x-a", "x-b")
NO_ID: Final = bytes(16)
UNKNOWN_ID: Final = b"n" * 16
OTHER_NODE: Final = 99
"""A broker that does not exist: requests in its name change nothing."""
TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
TIMEOUT_MS: Final = 10_000
TRANSACTION_TIMEOUT_MS: Final = 600_000


class Ref(NamedTuple):
    """A value that differs between the nodes: a topic's id, a producer's id or epoch, a batch, a token."""

    kind: str
    key: Any = None


class Who(NamedTuple):
    """A user at an address, at the listener of brokers or of controllers."""

    user: str
    source: str
    listener: str


@dataclass
class Plan:
    """A request for both nodes."""

    who: Who
    key: ApiKey
    version: int
    fields: dict[str, Any]

    def build(self, resolve: Callable[[Ref], Any]) -> Message:
        kind = m.message_class(self.key.api_name + "Request")
        return _built(kind, self.fields, kind, kind._definition.body, resolve)

    def __str__(self) -> str:
        return (
            f"{self.key.name} v{self.version} of {self.who.user}@{self.who.source} "
            f"at the {self.who.listener}: {self.fields}"
        )


def _built(
    kind: type[Message], fields: dict[str, Any], made: type, struct: Struct, resolve: Callable[[Ref], Any]
) -> Any:
    built = made()
    by_name = {field.name: field for field in struct.fields}
    for name, value in fields.items():
        inner = by_name[name].struct
        if isinstance(value, Ref):
            value = resolve(value)
        elif inner is None and isinstance(value, list):
            value = [resolve(each) if isinstance(each, Ref) else each for each in value]
        elif inner is not None and isinstance(value, list):
            value = [_built(kind, each, kind._classes[inner.name], inner, resolve) for each in value]
        elif inner is not None and isinstance(value, dict):
            value = _built(kind, value, kind._classes[inner.name], inner, resolve)
        setattr(built, name, value)
    return built


class Draw:
    """Draws requests and ACLs; equal seeds draw equal ones."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.transaction = ""
        self.owner = ""

    def plan(self, apis: dict[str, list[tuple[ApiKey, range]]]) -> Plan:
        """Draw a request of the APIs that each listener serves."""
        user = "admin" if self.chance(0.04) else self.random.choice(USERS)
        listener = "controller" if self.chance(0.2) else "broker"
        key, versions = self.random.choice(apis[listener])
        version = versions[-1] if self.chance(0.4) else self.random.choice(versions)
        self.transaction = self.any(*TRANSACTIONS * 3, "x-none", "y")
        self.owner = self.transaction if self.chance(0.85) else self.any(*TRANSACTIONS, "nobody")
        request = m.message_class(key.api_name + "Request")
        fields = self.struct(request._definition.body, version)
        return Plan(Who(user, self.random.choice(SOURCES), listener), key, version, fields)

    def struct(self, struct: Struct, version: int) -> dict[str, Any]:
        fields = {
            field.name: self.field(struct, field, version)
            for field in struct.fields
            if version in field.versions
        }
        shape = SHAPES.get(struct.name)
        if shape is not None:
            fields |= {name: value for name, value in shape(self, fields).items() if name in fields}
        return fields

    def field(self, struct: Struct, field: Field, version: int) -> Any:
        pool = POOLS.get(f"{struct.name}.{field.name}", POOLS.get(field.name))
        if (
            version in field.nullable
            and field.is_array
            and struct.name not in NEVER_NULL
            and self.chance(0.15)
        ):
            return None
        if field.struct is not None and not field.is_array:
            is_null = version in field.nullable and self.chance(0.7)
            return None if is_null else self.struct(field.struct, version)
        if field.is_array:
            return self._array(struct, field, pool, version)
        value = pool(self) if pool is not None else self._plain(field)
        return (
            "" if value is None and version not in field.nullable and field.type_name == "string" else value
        )

    def _array(self, struct: Struct, field: Field, pool: Pool | None, version: int) -> list[Any]:
        if struct.name in ONE_ELEMENT and field.struct is not None:
            return [self.struct(field.struct, version)]
        drawn: dict[object, Any] = {}
        fewest = 1 if field.name in NEVER_EMPTY else 0
        for _ in range(self.any(fewest, 1, 1, 1, 1, 2, 2, 2, 3)):
            if field.struct is not None:
                each = self.struct(field.struct, version)
                identity: object = repr(list(each.values())[: IDENTITY.get(field.struct.name, 1)])
            else:
                each = identity = pool(self) if pool is not None else self._plain(field)
            if each is not None:
                drawn.setdefault(identity, each)
        return list(drawn.values())

    def _plain(self, field: Field) -> Any:
        if field.type_name == "bool":
            return self.chance(0.5)
        if field.type_name == "uuid":
            return topic_id(self)
        return field.default_value

    def acls(self) -> list[dict[str, Any]]:
        """The ACLs of a round: few or many, most of them allow."""
        return [self.acl() for _ in range(self.any(0, 3, 8, 15, 25))]

    def acl(self) -> dict[str, Any]:
        kind = self.any(*KINDS)
        pattern = PatternType.PREFIXED if self.chance(0.25) else PatternType.LITERAL
        return {
            "resource_type": kind,
            "resource_name": self._acl_name(kind, pattern),
            "resource_pattern_type": PatternType.LITERAL if kind is ResourceType.CLUSTER else pattern,
            "principal": WILDCARD_PRINCIPAL if self.chance(0.2) else f"User:{self.any(*USERS)}",
            "host": self.any(WILDCARD, WILDCARD, *SOURCES),
            "operation": Operation.ALL if self.chance(0.15) else self.any(*OPERATIONS[kind]),
            "permission_type": PermissionType.DENY if self.chance(0.2) else PermissionType.ALLOW,
        }

    def _acl_name(self, kind: ResourceType, pattern: PatternType) -> str:
        if kind is ResourceType.CLUSTER:
            return CLUSTER_NAME
        literal, prefixes = ACL_NAMES[kind]
        if pattern is PatternType.PREFIXED:
            return self.any(*prefixes)
        return WILDCARD if self.chance(0.3) else self.any(*literal)

    def any(self, *values: Any) -> Any:
        return self.random.choice(values)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability


Pool = Callable[[Draw], Any]

KINDS: Final = (
    *[ResourceType.TOPIC] * 8,
    *[ResourceType.GROUP] * 4,
    *[ResourceType.CLUSTER] * 5,
    *[ResourceType.TRANSACTIONAL_ID] * 4,
    *[ResourceType.USER, ResourceType.DELEGATION_TOKEN],
)
ACL_NAMES: Final = {
    ResourceType.TOPIC: (("t-a", "t-b", "u", "t-none", "t-new", "__consumer_offsets"), ("t", "t-", "u", "_")),
    ResourceType.GROUP: (("g-a", "g-b", "g-none", "h"), ("g", "g-", "h")),
    ResourceType.TRANSACTIONAL_ID: (("x-a", "x-b", "x-none", "y"), ("x", "x-", "y")),
    ResourceType.DELEGATION_TOKEN: (("t",), ("t",)),
    ResourceType.USER: (tuple(f"User:{user}" for user in USERS), ("User:", "User:a")),
}


def among(*values: Any) -> Pool:
    return lambda draw: draw.any(*values)


def topic(draw: Draw) -> str:
    return draw.any(
        *tuple(TOPICS) * 4,
        *("t-none", "t-new", "t-new", "v"),
        *("__consumer_offsets", "__transaction_state", "__cluster_metadata", "a/b", ""),
    )


def own_topic(draw: Draw) -> str:
    """A topic that requests may delete or grow: the internal topics have to stay as they are."""
    return draw.any(*tuple(TOPICS) * 4, "t-none", "t-new", "t-new", "v", "a/b", "")


def own_topic_id(draw: Draw) -> Any:
    name = draw.any(*tuple(TOPICS) * 4, "t-new", "unknown")
    return UNKNOWN_ID if name == "unknown" else Ref("topic id", name)


def topic_id(draw: Draw) -> Any:
    name = draw.any(*tuple(TOPICS) * 4, "t-new", "__consumer_offsets", "unknown", "none")
    if name in ("unknown", "none"):
        return UNKNOWN_ID if name == "unknown" else NO_ID
    return Ref("topic id", name)


def group(draw: Draw) -> str:
    return draw.any(*GROUPS * 3, "g-none", "h", "")


def producer_id(draw: Draw) -> Any:
    return draw.any(*[Ref("producer id", draw.owner)] * 5, -1, 12345)


def producer_epoch(draw: Draw) -> Any:
    return draw.any(*[Ref("producer epoch", draw.owner)] * 5, -1, 0, 77)


def user(draw: Draw) -> str:
    return draw.any(*USERS, "zoe", "")


def config_resource(draw: Draw, _fields: dict[str, Any]) -> dict[str, Any]:
    kind = draw.any(TOPIC, TOPIC, TOPIC, BROKER, BROKER, BROKER_LOGGER, GROUP, GROUP, 0, 99)
    names = {BROKER: among("1", "1", "", "2", "one"), BROKER_LOGGER: among("1", "1", "2", ""), GROUP: group}
    return {"resource_type": kind, "resource_name": names.get(kind, topic)(draw)}


def acl_creation(draw: Draw, _fields: dict[str, Any]) -> dict[str, Any]:
    acl = draw.acl()
    if draw.chance(0.1):
        acl |= draw.any(
            *({"operation": 0}, {"operation": 1}, {"permission_type": 1}, {"resource_name": ""}),
            *({"resource_pattern_type": 1}, {"principal": "ann"}, {"principal": ""}, {"host": ""}),
            *({"resource_type": 1}, {"operation": Operation.CLUSTER_ACTION}, {"resource_type": 0}),
        )
    return acl


def acl_filter(draw: Draw, _fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "resource_type_filter": draw.any(1, 1, 2, 3, 4, 5, 0),
        "resource_name_filter": draw.any(None, None, "t-a", "g", WILDCARD),
        "pattern_type_filter": draw.any(1, 1, 2, 3, 4, 0),
        "principal_filter": draw.any(None, None, "User:ann", WILDCARD_PRINCIPAL),
        "host_filter": draw.any(None, None, "127.0.0.1", WILDCARD),
        "operation": draw.any(1, 1, 2, 3, 8, 0),
        "permission_type": draw.any(1, 1, 2, 3, 0),
    }


def produced(draw: Draw, fields: dict[str, Any]) -> dict[str, Any]:
    """A request of a transaction has batches of its producer; others may have batches of any producer."""
    transaction = draw.transaction if draw.chance(0.3) else None
    kind = "transactional batch" if transaction else draw.any("batch", "batch", "batch", "idempotent batch")
    for topic in fields["topic_data"]:
        for partition in topic["partition_data"]:
            partition["records"] = Ref(kind, draw.owner)
    return {"transactional_id": transaction}


def name_or_id(draw: Draw, fields: dict[str, Any]) -> dict[str, Any]:
    if "topic_id" in fields and draw.chance(0.4):
        return {"name": None, "topic_id": own_topic_id(draw)}
    return {"name": topic(draw), "topic_id": NO_ID}


def quota_entity(draw: Draw, _fields: dict[str, Any]) -> dict[str, Any]:
    kind = draw.any("user", "user", "client-id", "ip", "nothing")
    name = draw.any(None, "127.0.0.9") if kind == "ip" else draw.any(None, "zoe", "dan")
    return {"entity_type": kind, "entity_name": name, "match_type": draw.any(0, 1, 2), "match": name or "zoe"}


def coordinator(draw: Draw, fields: dict[str, Any]) -> dict[str, Any]:
    kind = draw.any(0, 0, 1, 1, 2) if "key_type" in fields else 0
    pool = group if kind == 0 else lambda draw: draw.any(*TRANSACTIONS, "x-none", "y", "")
    return {
        "key_type": kind,
        "key": pool(draw),
        "coordinator_keys": list({pool(draw): None for _ in range(draw.any(0, 1, 2, 3))}),
    }


def member_type(draw: Draw, _fields: dict[str, Any]) -> dict[str, Any]:
    """No request makes a member: each node would rebalance and expire it in its own time."""
    own = draw.any("consumer", "", "sr")
    return {"protocol_type": own, "protocols": [{"name": "range", "metadata": b""}] if own else []}


def token_owner(draw: Draw, _fields: dict[str, Any]) -> dict[str, Any]:
    """An owner that the test can log in as, to remove the token."""
    kind = draw.any(None, "User")
    return {"owner_principal_type": kind, "owner_principal_name": kind and draw.any(*USERS)}


SHAPES: Final[dict[str, Callable[[Draw, dict[str, Any]], dict[str, Any]]]] = {
    "DescribeConfigsResource": config_resource,
    "AlterConfigsResource": config_resource,
    "AclCreation": acl_creation,
    "DescribeAclsRequest": acl_filter,
    "DeleteAclsFilter": acl_filter,
    "ProduceRequest": produced,
    "MetadataRequestTopic": name_or_id,
    "EntityData": quota_entity,
    "ComponentData": quota_entity,
    "FindCoordinatorRequest": coordinator,
    "JoinGroupRequest": member_type,
    "CreateDelegationTokenRequest": token_owner,
    "ControllerRegistrationRequest": lambda draw, fields: {"listeners": [], "features": []},
}
"""The fields of a struct that have to fit together."""

ONE_ELEMENT: Final = frozenset({"WriteTxnMarkersRequest"})
"""Kafka never answers a request with several markers if one of them has an error."""

NEVER_EMPTY: Final = frozenset(
    {"partitions", "partition_indexes", "v3_and_below_topics", "transactions", "topic_partitions"}
)
"""Arrays without which Kafka's answer has no place for an error, or depends on the other topics."""

NEVER_NULL: Final = frozenset({"DescribeUserScramCredentialsRequest"})
"""Kafka never answers a client that may not ask for all users."""

IDENTITY: Final = {
    "DescribeConfigsResource": 2,
    "AlterConfigsResource": 2,
    "AclCreation": 7,
    "DeleteAclsFilter": 7,
}
"""The number of leading fields that identify an element of an array, if it is not one."""

POOLS: Final[dict[str, Pool]] = {
    # Names
    "name": topic,
    "topic": topic,
    "topic_name": topic,
    "topic_names": topic,
    "CreatePartitionsTopic.name": own_topic,
    "WritableTxnMarkerTopic.name": own_topic,
    "DeleteTopicState.name": lambda draw: draw.any(own_topic(draw), None),
    "DeleteTopicsRequest.topic_names": own_topic,
    "DeleteTopicState.topic_id": lambda draw: draw.any(NO_ID, own_topic_id(draw)),
    "FetchTopic.topic_id": own_topic_id,
    "topic_id": topic_id,
    "group_id": group,
    "groups": group,
    "groups_names": among(*GROUPS * 3, "g-none", "h"),
    "group_ids": group,
    "transactional_id": lambda draw: draw.transaction,
    "InitProducerIdRequest.transactional_id": lambda draw: draw.any(
        draw.transaction, draw.transaction, None, ""
    ),
    "v3_and_below_transactional_id": lambda draw: draw.transaction,
    "transactional_ids": among(*TRANSACTIONS, "x-none", "y", ""),
    "transactional_id_pattern": among(None, "x.*", "", ".*none", "("),
    "UserName.name": user,
    "ScramCredentialDeletion.name": user,
    "ScramCredentialUpsertion.name": user,
    # Positions
    "partition": among(0, 0, 0, 1, 7, -1),
    "partition_index": among(0, 0, 0, 1, 7, -1),
    "index": among(0, 0, 0, 1, 7, -1),
    "partitions": among(0, 0, 0, 1, 7, -1),
    "partition_indexes": among(0, 0, 0, 1, 7, -1),
    "offset": among(0, 0, 1, -1, 1000),
    "fetch_offset": among(0, 0, 1, -1, 1000),
    "committed_offset": among(0, 1, 17),
    "committed_metadata": among("", "m", None, "m" * 5000),
    "current_leader_epoch": among(-1, -1, -1, 0, 5),
    "OffsetForLeaderPartition.leader_epoch": among(0, 0, 5, -1),
    "timestamp": among(-1, -2, -3, -4, -5, -6, 0, -9),
    "partition_max_bytes": among(0, 10, 100_000),
    "isolation_level": among(0, 1, 1),
    # Producers
    "producer_id": producer_id,
    "producer_epoch": producer_epoch,
    "WritableTxnMarker.producer_id": lambda draw: draw.any(Ref("producer id", draw.owner), 12345),
    "WritableTxnMarker.producer_epoch": lambda draw: Ref("producer epoch", draw.owner),
    "v3_and_below_producer_id": producer_id,
    "v3_and_below_producer_epoch": producer_epoch,
    "InitProducerIdRequest.producer_id": lambda draw: draw.any(-1, -1, producer_id(draw)),
    "InitProducerIdRequest.producer_epoch": lambda draw: draw.any(-1, -1, producer_epoch(draw)),
    "transaction_timeout_ms": among(*[TRANSACTION_TIMEOUT_MS] * 8, 0, -1, 2**31 - 1),
    "acks": among(-1, -1, 1, 0, 2),
    "producer_id_filters": lambda draw: Ref("producer id", draw.owner),
    "state_filters": among("Ongoing", "Empty", "CompleteAbort", "nonsense"),
    "duration_filter": among(-1, -1, 0),
    # Groups
    "generation_id": among(-1, -1, 1),
    "generation_id_or_member_epoch": among(-1, -1, 1),
    "member_id": among("", "", "stranger"),
    "group_instance_id": among(None, None, None, "static"),
    "session_timeout_ms": among(1),
    "rebalance_timeout_ms": among(TIMEOUT_MS),
    "states_filter": among("Empty", "Stable", "dead", "nonsense"),
    "types_filter": among("classic", "Consumer", "nonsense"),
    "OffsetFetchRequestGroup.member_id": among(None, None, "stranger"),
    "OffsetFetchRequestGroup.member_epoch": among(-1),
    # Topics and configs
    "num_partitions": among(1, 2, -1, 0),
    "replication_factor": among(1, 1, -1, 2, 0),
    "CreatableReplicaAssignment.partition_index": among(0, 0, 1),
    "broker_ids": among(1, 1, 2),
    "CreatableTopicConfig.name": among("retention.ms", "nothing.of.the.sort"),
    "CreatableTopicConfig.value": among("700000000", "many", None),
    "count": among(1, 2, 3, 3, 0, -1),
    "replicas": among(1, 1, 2),
    "validate_only": lambda draw: draw.chance(0.6),
    "allow_auto_topic_creation": among(False),
    "configuration_keys": among("retention.ms", "nothing.of.the.sort", "log.retention.ms"),
    "AlterableConfig.name": among(
        *("retention.ms", "retention.ms", "log.retention.ms", "consumer.session.timeout.ms"),
        *("kafka.request.logger", "nothing.of.the.sort"),
    ),
    "AlterableConfig.value": among("700000000", "50000", "INFO", "many", None),
    "config_operation": among(0, 0, 0, 1, 2),
    # Users, quotas, tokens
    "mechanism": among(1, 1, 2, 0, 9),
    "iterations": among(4096, 4096, 1, 20_000),
    "salt": among(b"salt"),
    "salted_password": among(b"p" * 32),
    "OpData.key": among("producer_byte_rate", "producer_byte_rate", "connection_creation_rate", "nothing"),
    "OpData.value": among(1e9, 1e9, -1.0),
    "OpData.remove": lambda draw: draw.chance(0.3),
    "principal_type": among("User", "User", "Group"),
    "principal_name": among(*USERS, "zoe"),
    "max_lifetime_ms": among(-1, 3_600_000),
    "renew_period_ms": among(-1, 3_600_000),
    "expiry_time_period_ms": among(-1, 3_600_000),
    "hmac": lambda draw: Ref("token", draw.any(0, 0, 1, 2, 3)),
    # The cluster
    "replica_id": among(-1, -1, -1, OTHER_NODE),
    "ListOffsetsRequest.replica_id": among(-1, -1, -1, -1, -2, OTHER_NODE),
    "cluster_id": among("another-cluster"),
    "broker_id": among(OTHER_NODE),
    "controller_id": among(OTHER_NODE),
    "voter_id": among(OTHER_NODE),
    "election_type": among(0, 0, 1),
    "endpoint_type": among(1, 1, 2, 5),
    "feature": among("metadata.version", "kraft.version", "nothing"),
    "max_version_level": among(0, 1, 30, 99),
    "upgrade_type": among(1, 1, 2, 0, 7),
    "FeatureUpdateKey.allow_downgrade": among(False),
    "UpdateFeaturesRequest.validate_only": among(True),
    "coordinator_epoch": among(0),
    "response_partition_limit": among(2000, 2000, 1),
    "SaslHandshakeRequest.mechanism": among("PLAIN", "NONE"),
    # Limits
    "timeout_ms": among(TIMEOUT_MS),
    "max_wait_ms": among(0),
    "min_bytes": among(0, 1),
    "max_bytes": among(100_000),
    "session_epoch": among(-1, -1, 0, 5),
    "session_id": among(0, 0, 12345),
}
"""The values of a field, by its struct and its name, or by its name alone."""
