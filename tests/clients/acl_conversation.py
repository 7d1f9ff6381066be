"""Ask each API that names resources as a client that may do nothing, and again after each permission it gets.

The client comes from 127.0.0.2, and the administrator from 127.0.0.1. Both are User:ANONYMOUS, so that ACLs
know them by their addresses. An answer is shown by its error codes, the names in it and its authorized
operations.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from acl_wire import ADMINISTRATOR, CLIENT, SETTINGS, allow, close_to_others, forget
from broker_wire import Wire, batch_of
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey, api_range, response_class
from penstock.protocol.codec import Message, MessageStruct
from penstock.protocol.errors import ErrorCode
from penstock.security.acls import Operation, PatternType, PermissionType, ResourceType
from transaction_wire import TWO_PHASE_COMMIT, find_coordinator
from waiting import wait_until

GROUP, TRANSACTION = 0, 1
BROKER_RESOURCE, TOPIC_RESOURCE = 4, 2
NAMES: Final = frozenset(
    {
        "name",
        "topic",
        "topic_name",
        "group_id",
        "key",
        "transactional_id",
        "resource_name",
        "resource_type",
        "user",
    }
)
"""The fields of an answer that are shown, beside error codes and authorized operations."""

NODE: Final = SETTINGS | TWO_PHASE_COMMIT
"""The settings of the nodes that are asked."""

Grant = tuple[str, str, str]
"""Operation, type of resource and name."""


class Asked(NamedTuple):
    """A request of the client, and the permissions that it gets one after the other."""

    title: str
    request: Callable[["Topics"], Message]
    grants: tuple[Grant, ...]
    version: int | None = None


class Topics(NamedTuple):
    """The ids of the topics that exist."""

    t: bytes
    gone: bytes


def converse(bootstrap_servers: str) -> str:
    """Return the answers of this node to all requests."""
    with Wire(bootstrap_servers, source=ADMINISTRATOR) as admin:
        topics = Topics(admin.create_topic("t", 2), admin.create_topic("gone"))
        admin.produce("t", batch_of(b"a"))
        for kind, key in ((GROUP, "g"), (TRANSACTION, "x")):
            find_coordinator(admin, key, kind)
        prepare(admin)
        close_to_others(admin)
        lines: list[str] = []
        for asked in ASKED:
            lines.append(asked.title)
            lines += ["    " + line for line in answers(bootstrap_servers, admin, asked, topics)]
        return "\n".join(lines) + "\n"


def prepare(admin: Wire) -> None:
    """Commit an offset of the group g, and leave the transactional id x empty."""
    partition = m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    commit = m.OffsetCommitRequest(group_id="g", topics=[topic])
    init = m.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    wait_until(lambda: admin.ask(commit, m.OffsetCommitResponse, 9).topics[0].partitions[0].error_code == 0)
    wait_until(lambda: admin.ask(init, m.InitProducerIdResponse).error_code == 0)


def answers(bootstrap_servers: str, admin: Wire, asked: Asked, topics: Topics) -> Iterator[str]:
    request = asked.request(topics)
    key = ApiKey(request.ID)
    version = api_range(key)[1] if asked.version is None else asked.version
    with Wire(bootstrap_servers, source=CLIENT) as client:
        yield f"nothing: {shown(client.ask(request, response_class(key), version))}"
        for grant in asked.grants:
            allow(admin, " ".join(grant))
            yield f"{' '.join(grant)}: {shown(client.ask(request, response_class(key), version))}"
    forget(admin)


def shown(struct: MessageStruct) -> str:
    """Error codes, names, and authorized operations, with lists in the order of their text.

    Clients tell apart messages that are null and empty; the texts are each server's own. The nodes of a
    quorum are left out: they have different listeners.
    """
    parts: list[str] = []
    for name in struct.FIELDS:
        value = getattr(struct, name)
        if name == "error_code":
            parts.append(ErrorCode(value).name)
        elif name in NAMES and value != "":
            parts.append(str(value))
        elif name == "error_message" and value == "":
            parts.append("''")
        elif name == "topic_id":
            parts.append("id" if any(value) else "no id")
        elif name.endswith("authorized_operations") and value != -(2**31):
            parts.append(f"may {value:b}")
        elif name == "configs" and value is not None:
            parts.append("with configs" if value else "without configs")
        elif name != "nodes" and isinstance(value, list) and value and isinstance(value[0], MessageStruct):
            parts.append(f"{name}[{', '.join(sorted(map(shown, value)))}]")
    return " ".join(parts)


# Requests


def produce(topics: Topics, **fields: str) -> m.ProduceRequest:
    partition = m.ProduceRequest.PartitionProduceData(index=0, records=batch_of(b"b"))
    topic = m.ProduceRequest.TopicProduceData(name="t", topic_id=topics.t, partition_data=[partition])
    nowhere = m.ProduceRequest.TopicProduceData(
        name="nowhere", topic_id=b"n" * 16, partition_data=[partition]
    )
    return m.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic, nowhere], **fields)


def fetch(topics: Topics, replica_id: int = -1) -> m.FetchRequest:
    partition = m.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10)
    return m.FetchRequest(
        replica_id=replica_id,
        replica_state=m.FetchRequest.ReplicaState(replica_id=replica_id),
        max_wait_ms=0,
        max_bytes=1000,
        topics=[
            m.FetchRequest.FetchTopic(topic="t", topic_id=topics.t, partitions=[partition]),
            m.FetchRequest.FetchTopic(topic="nowhere", topic_id=b"n" * 16, partitions=[partition]),
        ],
    )


def list_offsets(_topics: Topics) -> m.ListOffsetsRequest:
    partition = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = m.ListOffsetsRequest.ListOffsetsTopic
    return m.ListOffsetsRequest(
        replica_id=-1, topics=[topic(name=name, partitions=[partition]) for name in ("t", "nowhere")]
    )


def metadata(*names: str, ids: bool = False, creates: bool = False) -> Callable[[Topics], m.MetadataRequest]:
    def request(topics: Topics) -> m.MetadataRequest:
        topic = m.MetadataRequest.MetadataRequestTopic
        asked = [topic(name=name) for name in names] or None
        if ids:
            asked = [topic(name=None, topic_id=topics.t), topic(name=None, topic_id=b"n" * 16)]
        return m.MetadataRequest(
            topics=asked, allow_auto_topic_creation=creates, include_topic_authorized_operations=True
        )

    return request


def describe_topic_partitions(_topics: Topics) -> m.DescribeTopicPartitionsRequest:
    topic = m.DescribeTopicPartitionsRequest.TopicRequest
    return m.DescribeTopicPartitionsRequest(topics=[topic(name="nowhere"), topic(name="t")])


def offset_for_leader_epoch(_topics: Topics) -> m.OffsetForLeaderEpochRequest:
    partition = m.OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return m.OffsetForLeaderEpochRequest(
        topics=[topic(topic=name, partitions=[partition]) for name in ("t", "nowhere")]
    )


def delete_records(_topics: Topics) -> m.DeleteRecordsRequest:
    partition = m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)
    topic = m.DeleteRecordsRequest.DeleteRecordsTopic
    return m.DeleteRecordsRequest(
        topics=[topic(name=name, partitions=[partition]) for name in ("t", "nowhere")], timeout_ms=10_000
    )


def describe_producers(_topics: Topics) -> m.DescribeProducersRequest:
    topic = m.DescribeProducersRequest.TopicRequest
    return m.DescribeProducersRequest(
        topics=[topic(name=name, partition_indexes=[0]) for name in ("t", "nowhere")]
    )


def describe_log_dirs(_topics: Topics) -> m.DescribeLogDirsRequest:
    topic = m.DescribeLogDirsRequest.DescribableLogDirTopic(topic="t", partitions=[0])
    return m.DescribeLogDirsRequest(topics=[topic])


def describe_configs(kind: int, name: str) -> Callable[[Topics], m.DescribeConfigsRequest]:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[]
    )
    return lambda _topics: m.DescribeConfigsRequest(resources=[resource])


def incremental_alter_configs(kind: int, name: str) -> Callable[[Topics], m.IncrementalAlterConfigsRequest]:
    resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[]
    )
    return lambda _topics: m.IncrementalAlterConfigsRequest(resources=[resource])


def alter_configs(kind: int, name: str) -> Callable[[Topics], m.AlterConfigsRequest]:
    resource = m.AlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
    return lambda _topics: m.AlterConfigsRequest(resources=[resource])


def create_topics(name: str) -> Callable[[Topics], m.CreateTopicsRequest]:
    topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return lambda _topics: m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)


def create_partitions(_topics: Topics) -> m.CreatePartitionsRequest:
    topic = m.CreatePartitionsRequest.CreatePartitionsTopic
    return m.CreatePartitionsRequest(
        topics=[topic(name=name, count=3, assignments=None) for name in ("t", "nowhere")],
        timeout_ms=10_000,
        validate_only=True,
    )


def delete_topics(*, ids: bool) -> Callable[[Topics], m.DeleteTopicsRequest]:
    def request(topics: Topics) -> m.DeleteTopicsRequest:
        state = m.DeleteTopicsRequest.DeleteTopicState
        known = state(topic_id=topics.gone) if ids else state(name="gone")
        unknown = state(topic_id=b"n" * 16) if ids else state(name="nowhere")
        return m.DeleteTopicsRequest(topics=[known, unknown], timeout_ms=10_000)

    return request


def elect_leaders(_topics: Topics) -> m.ElectLeadersRequest:
    topic = m.ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])
    return m.ElectLeadersRequest(topic_partitions=[topic], timeout_ms=10_000)


def alter_reassignments(_topics: Topics) -> m.AlterPartitionReassignmentsRequest:
    partition = m.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=[1])
    topic = m.AlterPartitionReassignmentsRequest.ReassignableTopic(name="t", partitions=[partition])
    return m.AlterPartitionReassignmentsRequest(topics=[topic])


def describe_quorum(_topics: Topics) -> m.DescribeQuorumRequest:
    partition = m.DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = m.DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    return m.DescribeQuorumRequest(topics=[topic])


def describe_cluster(_topics: Topics) -> m.DescribeClusterRequest:
    return m.DescribeClusterRequest(endpoint_type=1, include_cluster_authorized_operations=True)


def join_group(_topics: Topics) -> m.JoinGroupRequest:
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return m.JoinGroupRequest(
        group_id="j",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )


def leave_group(_topics: Topics) -> m.LeaveGroupRequest:
    member = m.LeaveGroupRequest.MemberIdentity(member_id="m")
    return m.LeaveGroupRequest(group_id="g", members=[member])


def offset_commit(topics: Topics) -> m.OffsetCommitRequest:
    partition = m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = m.OffsetCommitRequest.OffsetCommitRequestTopic
    return m.OffsetCommitRequest(
        group_id="g",
        topics=[
            topic(name="t", topic_id=topics.t, partitions=[partition]),
            topic(name="nowhere", topic_id=b"n" * 16, partitions=[partition]),
        ],
    )


def offset_fetch(topics: Topics) -> m.OffsetFetchRequest:
    topic = m.OffsetFetchRequest.OffsetFetchRequestTopics
    asked = [topic(name="t", topic_id=topics.t, partition_indexes=[0])]
    group = m.OffsetFetchRequest.OffsetFetchRequestGroup
    return m.OffsetFetchRequest(
        groups=[group(group_id="g", topics=asked), group(group_id="all-of-it", topics=None)]
    )


def offset_fetch_of_all(_topics: Topics) -> m.OffsetFetchRequest:
    group = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
    return m.OffsetFetchRequest(groups=[group])


def old_offset_fetch(_topics: Topics) -> m.OffsetFetchRequest:
    topic = m.OffsetFetchRequest.OffsetFetchRequestTopic
    return m.OffsetFetchRequest(
        group_id="g", topics=[topic(name=name, partition_indexes=[0]) for name in ("t", "nowhere")]
    )


def offset_delete(_topics: Topics) -> m.OffsetDeleteRequest:
    partition = m.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=1)
    topic = m.OffsetDeleteRequest.OffsetDeleteRequestTopic
    return m.OffsetDeleteRequest(
        group_id="g", topics=[topic(name=name, partitions=[partition]) for name in ("t", "nowhere")]
    )


def find_coordinators(kind: int, *keys: str) -> Callable[[Topics], m.FindCoordinatorRequest]:
    return lambda _topics: m.FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))


def init_producer_id(
    transactional_id: str | None, *, two_phase: bool = False
) -> Callable[[Topics], m.InitProducerIdRequest]:
    return lambda _topics: m.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000, enable2_pc=two_phase
    )


def old_add_partitions(_topics: Topics) -> m.AddPartitionsToTxnRequest:
    topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=12345,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[topic(name=name, partitions=[0]) for name in ("t", "nowhere")],
    )


def add_partitions(_topics: Topics) -> m.AddPartitionsToTxnRequest:
    topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[0])
    transaction = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=12345, producer_epoch=0, verify_only=True, topics=[topic]
    )
    return m.AddPartitionsToTxnRequest(transactions=[transaction])


def add_offsets(_topics: Topics) -> m.AddOffsetsToTxnRequest:
    return m.AddOffsetsToTxnRequest(transactional_id="x", producer_id=12345, producer_epoch=0, group_id="g")


def end_txn(_topics: Topics) -> m.EndTxnRequest:
    return m.EndTxnRequest(transactional_id="x", producer_id=12345, producer_epoch=0, committed=True)


def txn_offset_commit(_topics: Topics) -> m.TxnOffsetCommitRequest:
    partition = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1
    )
    topic = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    return m.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=12345,
        producer_epoch=0,
        member_id="",
        topics=[topic(name=name, partitions=[partition]) for name in ("t", "nowhere")],
    )


def write_txn_markers(_topics: Topics) -> m.WriteTxnMarkersRequest:
    return m.WriteTxnMarkersRequest(markers=[])


def describe_acls(_topics: Topics) -> m.DescribeAclsRequest:
    return m.DescribeAclsRequest(
        resource_type_filter=ResourceType.GROUP,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        pattern_type_filter=PatternType.ANY,
        operation=Operation.ANY,
        permission_type=PermissionType.ANY,
    )


def create_acls(_topics: Topics) -> m.CreateAclsRequest:
    creation = m.CreateAclsRequest.AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="other",
        resource_pattern_type=PatternType.LITERAL,
        principal="User:ANONYMOUS",
        host=CLIENT,
        operation=Operation.READ,
        permission_type=PermissionType.ALLOW,
    )
    return m.CreateAclsRequest(creations=[creation])


def delete_acls(_topics: Topics) -> m.DeleteAclsRequest:
    granted = m.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=ResourceType.CLUSTER,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        pattern_type_filter=PatternType.LITERAL,
        operation=Operation.DESCRIBE,
        permission_type=PermissionType.ANY,
    )
    return m.DeleteAclsRequest(filters=[granted])


def alter_users(_topics: Topics) -> m.AlterUserScramCredentialsRequest:
    deletions = [
        m.AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=name, mechanism=1)
        for name in ("zoe", "ann")
    ]
    return m.AlterUserScramCredentialsRequest(deletions=deletions)


def describe_users(_topics: Topics) -> m.DescribeUserScramCredentialsRequest:
    user = m.DescribeUserScramCredentialsRequest.UserName(name="ann")
    return m.DescribeUserScramCredentialsRequest(users=[user])


def alter_quotas(_topics: Topics) -> m.AlterClientQuotasRequest:
    entity = m.AlterClientQuotasRequest.EntityData(entity_type="user", entity_name="ann")
    return m.AlterClientQuotasRequest(entries=[m.AlterClientQuotasRequest.EntryData(entity=[entity])])


def constant(request: Message) -> Callable[[Topics], Message]:
    return lambda _topics: request


READ_T, WRITE_T, DESCRIBE_T = (("READ", "TOPIC", "t"), ("WRITE", "TOPIC", "t"), ("DESCRIBE", "TOPIC", "t"))
READ_G, DESCRIBE_G, DELETE_G = (("READ", "GROUP", "g"), ("DESCRIBE", "GROUP", "g"), ("DELETE", "GROUP", "g"))
WRITE_X, DESCRIBE_X = ("WRITE", "TRANSACTIONAL_ID", "x"), ("DESCRIBE", "TRANSACTIONAL_ID", "x")
TWO_PHASE_COMMIT_X = ("TWO_PHASE_COMMIT", "TRANSACTIONAL_ID", "x")


def cluster(operation: str) -> Grant:
    return (operation, "CLUSTER", "kafka-cluster")


def topic(operation: str, name: str) -> Grant:
    return (operation, "TOPIC", name)


ASKED: Final[tuple[Asked, ...]] = (
    Asked("produce by name", produce, (DESCRIBE_T, WRITE_T, topic("WRITE", "*")), 12),
    Asked("produce by id", produce, (DESCRIBE_T, WRITE_T, topic("WRITE", "*"))),
    Asked("produce in a transaction", lambda topics: produce(topics, transactional_id="x"), (WRITE_T,), 12),
    Asked("fetch by name", fetch, (DESCRIBE_T, READ_T, topic("READ", "*")), 12),
    Asked("fetch by id", fetch, (DESCRIBE_T, READ_T, topic("READ", "*"))),
    Asked("fetch as a follower", lambda topics: fetch(topics, 7), (READ_T, cluster("CLUSTER_ACTION")), 12),
    Asked("list offsets", list_offsets, (WRITE_T, topic("DESCRIBE", "*"))),
    Asked("metadata by name", metadata("t", "nowhere"), (DESCRIBE_T, topic("DESCRIBE", "*"))),
    Asked("metadata by id", metadata(ids=True), (DESCRIBE_T, topic("READ", "*"))),
    Asked("metadata of all", metadata(), (DESCRIBE_T, topic("READ", "gone"))),
    Asked(
        "metadata that creates topics",
        metadata("made", creates=True),
        (topic("DESCRIBE", "made"), topic("CREATE", "other")),
    ),
    Asked("describe topic partitions", describe_topic_partitions, (DESCRIBE_T, topic("DESCRIBE", "*"))),
    Asked("offset for leader epoch", offset_for_leader_epoch, (DESCRIBE_T, topic("DESCRIBE", "*"))),
    Asked("offset for leader epoch, broker", offset_for_leader_epoch, (cluster("CLUSTER_ACTION"),)),
    Asked("delete records", delete_records, (WRITE_T, topic("DELETE", "t"), topic("DELETE", "*"))),
    Asked("describe producers", describe_producers, (DESCRIBE_T, READ_T, topic("READ", "*"))),
    Asked("describe log dirs", describe_log_dirs, (DESCRIBE_T, cluster("DESCRIBE"))),
    Asked(
        "describe topic configs",
        describe_configs(TOPIC_RESOURCE, "t"),
        (DESCRIBE_T, topic("DESCRIBE_CONFIGS", "t")),
    ),
    Asked(
        "describe broker configs",
        describe_configs(BROKER_RESOURCE, "1"),
        (cluster("DESCRIBE"), cluster("ALTER_CONFIGS")),
    ),
    Asked(
        "describe group configs", describe_configs(32, "g"), (DESCRIBE_G, ("DESCRIBE_CONFIGS", "GROUP", "g"))
    ),
    Asked(
        "alter topic configs",
        incremental_alter_configs(TOPIC_RESOURCE, "t"),
        (topic("ALTER", "t"), topic("ALTER_CONFIGS", "t")),
    ),
    Asked(
        "alter broker configs",
        incremental_alter_configs(BROKER_RESOURCE, "1"),
        (cluster("ALTER"), cluster("ALTER_CONFIGS")),
    ),
    Asked(
        "alter log levels", incremental_alter_configs(8, "1"), (cluster("ALTER"), cluster("ALTER_CONFIGS"))
    ),
    Asked(
        "alter group configs",
        incremental_alter_configs(32, "g"),
        (READ_G, ("ALTER_CONFIGS", "GROUP", "g")),
    ),
    Asked(
        "replace topic configs",
        alter_configs(TOPIC_RESOURCE, "t"),
        (topic("ALTER", "t"), topic("ALTER_CONFIGS", "t")),
    ),
    Asked(
        "create a topic",
        create_topics("new"),
        (topic("CREATE", "other"), topic("CREATE", "new"), topic("DESCRIBE_CONFIGS", "new")),
    ),
    Asked("create a topic in the cluster", create_topics("new"), (cluster("CREATE"),)),
    Asked("create a topic that exists", create_topics("t"), (topic("CREATE", "t"),)),
    Asked("create partitions", create_partitions, (DESCRIBE_T, topic("ALTER", "t"), topic("ALTER", "*"))),
    Asked("elect leaders", elect_leaders, (cluster("CLUSTER_ACTION"), cluster("ALTER"))),
    Asked("alter reassignments", alter_reassignments, (cluster("CLUSTER_ACTION"), cluster("ALTER"))),
    Asked(
        "list reassignments",
        constant(m.ListPartitionReassignmentsRequest(topics=None)),
        (DESCRIBE_T, cluster("DESCRIBE")),
    ),
    Asked(
        "update features",
        constant(m.UpdateFeaturesRequest(feature_updates=[], validate_only=True)),
        (cluster("CLUSTER_ACTION"), cluster("ALTER")),
    ),
    Asked(
        "unregister a broker",
        constant(m.UnregisterBrokerRequest(broker_id=99)),
        (cluster("CLUSTER_ACTION"), cluster("ALTER")),
    ),
    Asked("describe the quorum", describe_quorum, (cluster("ALTER"), cluster("DESCRIBE"))),
    Asked("describe the cluster", describe_cluster, (cluster("DESCRIBE"), cluster("ALTER"))),
    Asked("join a group", join_group, (("DESCRIBE", "GROUP", "j"), ("READ", "GROUP", "j"))),
    Asked(
        "sync a group",
        constant(m.SyncGroupRequest(group_id="g", generation_id=1, member_id="m")),
        (DESCRIBE_G, READ_G),
    ),
    Asked(
        "heartbeat",
        constant(m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")),
        (DESCRIBE_G, READ_G),
    ),
    Asked("leave a group", leave_group, (DESCRIBE_G, READ_G)),
    Asked("commit offsets by name", offset_commit, (READ_G, DESCRIBE_T, READ_T, topic("READ", "*")), 9),
    Asked("commit offsets by id", offset_commit, (READ_G, DESCRIBE_T, READ_T, topic("READ", "*"))),
    Asked("fetch offsets", offset_fetch, (DESCRIBE_G, DESCRIBE_T, ("DESCRIBE", "GROUP", "*"))),
    Asked("fetch offsets by name", offset_fetch, (DESCRIBE_G, DESCRIBE_T), 9),
    Asked("fetch all offsets", offset_fetch_of_all, (DESCRIBE_G, DESCRIBE_T), 9),
    Asked("fetch offsets as before", old_offset_fetch, (DESCRIBE_G, DESCRIBE_T), 7),
    Asked("delete offsets", offset_delete, (READ_G, DELETE_G, DESCRIBE_T, READ_T, topic("READ", "*"))),
    Asked(
        "delete groups",
        constant(m.DeleteGroupsRequest(groups_names=["g-none", "h"])),
        (("READ", "GROUP", "h"), ("DELETE", "GROUP", "h")),
    ),
    Asked(
        "describe groups",
        constant(m.DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True)),
        (DESCRIBE_G, READ_G, ("DESCRIBE", "GROUP", "*")),
        5,
    ),
    Asked("list groups", constant(m.ListGroupsRequest()), (DESCRIBE_G,)),
    Asked("list groups of the cluster", constant(m.ListGroupsRequest()), (cluster("DESCRIBE"),)),
    Asked("find groups", find_coordinators(GROUP, "g", "h"), (DESCRIBE_G, ("READ", "GROUP", "h"))),
    Asked("find transactions", find_coordinators(TRANSACTION, "x"), (DESCRIBE_X,)),
    Asked("init a producer", init_producer_id(None), (DESCRIBE_T, WRITE_T)),
    Asked("init an idempotent producer", init_producer_id(None), (cluster("IDEMPOTENT_WRITE"),)),
    Asked("init a transaction", init_producer_id("x"), (DESCRIBE_X, WRITE_X)),
    Asked(
        "init a transaction of two phases",
        init_producer_id("x", two_phase=True),
        (TWO_PHASE_COMMIT_X, WRITE_X),
        6,
    ),
    Asked(
        "find a transaction by its two phases",
        find_coordinators(TRANSACTION, "x"),
        (TWO_PHASE_COMMIT_X, DESCRIBE_X),
    ),
    Asked("add partitions", old_add_partitions, (WRITE_X, DESCRIBE_T, WRITE_T, topic("WRITE", "*")), 3),
    Asked("verify partitions", add_partitions, (WRITE_X, cluster("CLUSTER_ACTION"))),
    Asked("add offsets", add_offsets, (DESCRIBE_X, WRITE_X, DESCRIBE_G, READ_G)),
    Asked("end a transaction", end_txn, (DESCRIBE_X, WRITE_X)),
    Asked(
        "commit offsets in a transaction",
        txn_offset_commit,
        (WRITE_X, READ_G, DESCRIBE_T, READ_T, topic("READ", "*")),
    ),
    Asked("write markers", write_txn_markers, (cluster("ALTER"),)),
    Asked("write markers as a broker", write_txn_markers, (cluster("CLUSTER_ACTION"),)),
    Asked(
        "describe transactions",
        constant(m.DescribeTransactionsRequest(transactional_ids=["x", "y"])),
        (DESCRIBE_X, ("DESCRIBE", "TRANSACTIONAL_ID", "*")),
    ),
    Asked("list transactions", constant(m.ListTransactionsRequest()), (DESCRIBE_X,)),
    Asked("describe ACLs", describe_acls, (cluster("ALTER"), cluster("DESCRIBE"))),
    Asked("create ACLs", create_acls, (cluster("DESCRIBE"), cluster("ALTER"))),
    Asked("delete ACLs", delete_acls, (cluster("DESCRIBE"), cluster("ALTER"))),
    Asked("alter users", alter_users, (cluster("DESCRIBE"), cluster("ALTER"))),
    Asked("describe users", describe_users, (cluster("ALTER"), cluster("DESCRIBE"))),
    Asked("alter quotas", alter_quotas, (cluster("ALTER"), cluster("ALTER_CONFIGS"))),
    Asked(
        "describe quotas",
        constant(m.DescribeClientQuotasRequest()),
        (cluster("DESCRIBE"), cluster("DESCRIBE_CONFIGS")),
    ),
    Asked("delete a topic by name", delete_topics(ids=False), (topic("DESCRIBE", "gone"),)),
    Asked(
        "delete a topic by id",
        delete_topics(ids=True),
        (topic("DESCRIBE", "gone"), topic("DELETE", "gone")),
    ),
)
