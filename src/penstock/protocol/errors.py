"""Kafka's error codes, and the exception that carries one of them."""

from __future__ import annotations

from enum import IntEnum

from penstock.errors import PenstockError

RETRIABLE = True


class ErrorCode(IntEnum):
    """Every error code of the supported release."""

    default_message: str
    """The message for errors that are raised without a more precise one."""
    retriable: bool
    """Whether Kafka's clients retry after this error."""

    def __new__(cls, code: int, default_message: str, retriable: bool = False) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.default_message = default_message
        member.retriable = retriable
        return member

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        """Map the code of a later release to the unknown error, as Kafka's own clients do."""
        return cls.UNKNOWN_SERVER_ERROR if isinstance(value, int) else None

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The error with the code of a response."""
        return cls(code)  # type: ignore[call-arg]  # a lookup; the arguments of __new__ are a member's own

    UNKNOWN_SERVER_ERROR = -1, "the broker met an unexpected error while handling the request"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "no record has the requested offset: it lies outside the log"
    CORRUPT_MESSAGE = 2, "the record batch is damaged, or a record lacks its key", RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker does not have the topic or partition", RETRIABLE
    INVALID_FETCH_SIZE = 4, "the size to fetch is not valid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment", RETRIABLE
    NOT_LEADER_OR_FOLLOWER = 6, "this broker does not lead, or does not have, the partition", RETRIABLE
    REQUEST_TIMED_OUT = 7, "the request took longer than its time limit", RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the partition's replica is not available", RETRIABLE
    MESSAGE_TOO_LARGE = 10, "a record batch is larger than max.message.bytes allows"
    STALE_CONTROLLER_EPOCH = 11, "the controller has moved to another node"
    OFFSET_METADATA_TOO_LARGE = 12, "committed metadata is longer than offset.metadata.max.bytes"
    NETWORK_EXCEPTION = 13, "the connection closed before the response arrived", RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading its state", RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "the coordinator is not available", RETRIABLE
    NOT_COORDINATOR = 16, "this broker does not coordinate that group or transaction", RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "the topic's name is not valid, or the topic is internal"
    RECORD_LIST_TOO_LARGE = 18, "the record batch is larger than a segment of the topic (segment.bytes)"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas", RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "appended to fewer replicas than min.insync.replicas", RETRIABLE
    INVALID_REQUIRED_ACKS = 21, "acks must be 0, 1 or -1"
    ILLEGAL_GENERATION = 22, "the group has moved on to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member shares no protocol with the group"
    INVALID_GROUP_ID = 24, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside the range the broker allows"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing; join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the offset commit is too large to be stored"
    TOPIC_AUTHORIZATION_FAILED = 29, "not authorized for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not authorized for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not authorized for the cluster"
    INVALID_TIMESTAMP = 32, "the timestamp of a record is outside the range that the topic allows"
    UNSUPPORTED_SASL_MECHANISM = 33, "the SASL mechanism is not enabled here"
    ILLEGAL_SASL_STATE = 34, "the request is not valid in this state of the SASL exchange"
    UNSUPPORTED_VERSION = 35, "this version of the request is not served"
    TOPIC_ALREADY_EXISTS = 36, "a topic of that name exists already"
    INVALID_PARTITIONS = 37, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not valid"
    INVALID_CONFIG = 40, "the configuration is not valid"
    NOT_CONTROLLER = 41, "this node is not the active controller", RETRIABLE
    INVALID_REQUEST = 42, "the request contradicts itself or breaks the protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the message format does not support the request"
    POLICY_VIOLATION = 44, "the request breaks a policy set for this cluster"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the producer's sequence number does not follow the last one"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the producer's sequence number was used before"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is older than the current one"
    INVALID_TXN_STATE = 48, "the transaction's state does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id is not the one assigned to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is above transaction.max.timeout.ms"
    CONCURRENT_TRANSACTIONS = 51, "another operation on the same transaction is still under way", RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "the transaction coordinator that sent the marker has been replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not authorized for the transactional id"
    SECURITY_DISABLED = 54, "no authorizer is configured"
    OPERATION_NOT_ATTEMPTED = 55, "not attempted, because another operation of the batch failed"
    KAFKA_STORAGE_ERROR = 56, "the disk failed while the log was read or written", RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "the broker no longer knows the producer id"
    REASSIGNMENT_IN_PROGRESS = 60, "a reassignment of the partition is under way"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "the delegation token does not exist"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the principal may not use the delegation token"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "delegation tokens are refused on this connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "the principal type is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "the group does not exist"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the fetch session does not exist", RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session's epoch is not the expected one", RETRIABLE
    LISTENER_NOT_FOUND = 72, "the leader lacks the listener on which the request arrived", RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "deleting topics is disabled (delete.topic.enable)"
    FENCED_LEADER_EPOCH = 74, "the leader epoch in the request is older than the broker's", RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch in the request is newer than the broker's", RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the client does not support the compression of the partition"
    STALE_BROKER_EPOCH = 77, "the broker has registered again since then"
    OFFSET_NOT_AVAILABLE = 78, "the new leader's high watermark has not caught up yet", RETRIABLE
    MEMBER_ID_REQUIRED = 79, "the member must join again with the member id it was given"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available", RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "the group has group.max.size members already"
    FENCED_INSTANCE_ID = 82, "another member with the same group.instance.id has taken over"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica that may become leader is available", RETRIABLE
    ELECTION_NOT_NEEDED = 84, "the partition has the right leader already", RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "no reassignment of the partition is under way"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group is subscribed to the topic"
    INVALID_RECORD = 87, "a record breaks the rules of the topic"
    UNSTABLE_OFFSET_COMMIT = 88, "offsets of an open transaction are pending", RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota is exhausted", RETRIABLE
    PRODUCER_FENCED = 90, "a newer producer with the same transactional id has taken over"
    RESOURCE_NOT_FOUND = 91, "the resource does not exist"
    DUPLICATE_RESOURCE = 92, "the request names the same resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential is not acceptable"
    INCONSISTENT_VOTER_SET = 94, "sender or receiver is not one of the expected voters"
    INVALID_UPDATE_VERSION = 95, "the update version is not valid"
    FEATURE_UPDATE_FAILED = 96, "the finalized features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the principal of a forwarded request could not be read"
    SNAPSHOT_NOT_FOUND = 98, "the snapshot does not exist"
    POSITION_OUT_OF_RANGE = 99, "the position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this broker has no topic with that id", RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "the broker id is taken by another live broker"
    BROKER_ID_NOT_REGISTERED = 102, "no broker is registered under that id"
    INCONSISTENT_TOPIC_ID = 103, "the topic id differs from the one that the log has", RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "the cluster id differs from this cluster's"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "the transactional id does not exist"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session saw a topic both with and without id", RETRIABLE
    INELIGIBLE_REPLICA = 107, "the new ISR has a replica that may not be in it"
    NEW_LEADER_ELECTED = 108, "the change took effect and moved the leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the requested offset has moved to tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the member was fenced; it must release all partitions and join again"
    UNRELEASED_INSTANCE_ID = 111, "another member still uses the instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the group does not support the assignor"
    STALE_MEMBER_EPOCH = 113, "the member's epoch is behind; retry after the next heartbeat"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request was sent to the wrong kind of node"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "this kind of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "no controller is registered under that id"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is unknown or out of date"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is larger than telemetry.max.bytes"
    INVALID_REGISTRATION = 119, "the controller does not accept the broker's registration"
    TRANSACTION_ABORTABLE = 120, "the transaction failed and must be aborted"
    INVALID_RECORD_STATE = 121, "the record is not in a state that allows the acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "the share session does not exist", RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session's epoch is not the expected one", RETRIABLE
    FENCED_STATE_EPOCH = 124, "the share group's state epoch differs from the coordinator's"
    INVALID_VOTER_KEY = 125, "the voter's key differs from this replica's"
    DUPLICATE_VOTER = 126, "the voter is in the voter set already"
    VOTER_NOT_FOUND = 127, "the voter is not in the voter set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, "the client's metadata is out of date; bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the topology epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "the topology epoch is outdated"
    SHARE_SESSION_LIMIT_REACHED = 133, "the broker has as many share sessions as it allows", RETRIABLE


class KafkaError(PenstockError):
    """A failure that a response reports by an error code."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = code.default_message if message is None else message
        super().__init__(f"{code.name}: {self.message}")
