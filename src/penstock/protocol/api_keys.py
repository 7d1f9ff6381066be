"""The APIs of the supported release: keys, version ranges, header versions, message classes.

The release is Apache Kafka 4.3.1. Keys 4 to 7 belonged to APIs for ZooKeeper, which Kafka 4.0 removed.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache

from penstock.protocol.codec import Message
from penstock.protocol.definition import Api, Versions, library
from penstock.protocol.messages import message_class

TARGET_RELEASE = "4.3.1"
TARGET_METADATA_VERSION = "4.3-IV0"
TARGET_METADATA_LEVEL = 30
"""The feature level of ``metadata.version`` for the release's newest stable metadata version."""


class ApiKey(IntEnum):
    """The request types, by the number that begins every request header."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92

    @property
    def api_name(self) -> str:
        """Kafka's name in camel case, such as ``ListOffsets``, with which names of message classes begin."""
        return api(self).name


@cache
def _apis() -> dict[int, Api]:
    return {api.key: api for api in library.apis()}


def api(key: int) -> Api:
    """The definition of an API. Raises KeyError if the supported release does not have the key."""
    return _apis()[key]


def apis() -> list[Api]:
    """All APIs in the order of their keys, for tables of versions."""
    return list(_apis().values())


def api_range(key: int) -> Versions:
    """The lowest and the highest stable version of the supported release."""
    return api(key).stable


def unstable_version(key: int) -> int | None:
    """The version that the release still develops, one above the stable versions; None for most APIs."""
    versions, stable = api(key).versions, api(key).stable
    return versions.high if versions.high > stable.high else None


def advertised_range(key: int) -> Versions:
    """The versions that ApiVersions shows.

    They differ from ``api_range`` for Produce alone, which is shown from 0 on: older librdkafka concludes
    from a missing version 0 that the broker does not support compression (KAFKA-18659).
    """
    return api(key).advertised


def request_class(key: int) -> type[Message]:
    return message_class(api(key).name + "Request")


def response_class(key: int) -> type[Message]:
    return message_class(api(key).name + "Response")


@cache
def request_header_version(key: int, version: int) -> int:
    """The header version of a request: 2 (with tagged fields) for flexible versions, else 1."""
    return 2 if request_class(key).is_flexible(version) else 1


@cache
def response_header_version(key: int, version: int) -> int:
    """The header version of a response: 1 (with tagged fields) for flexible versions, else 0.

    It is always 0 for ApiVersions, because a client must be able to read the response to a version that the
    broker does not support (KIP-511).
    """
    if key == ApiKey.API_VERSIONS:
        return 0
    return 1 if response_class(key).is_flexible(version) else 0
