"""The permissions of the APIs of groups and transactions, and what clients without them cannot see.

The client comes from 127.0.0.2 and the administrator from 127.0.0.1, so that ACLs can tell them apart.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

import pytest

from broker_wire import Wire
from penstock.broker.api_table import apis
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey, response_class
from penstock.protocol.codec import Message, MessageStruct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.uuids import uuid_to_text
from penstock.security.acls import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from penstock.security.permissions import AUTHORIZATION_FAILED
from penstock.testing import Cluster
from transaction_wire import GROUP, TRANSACTION, Transactor, find_coordinator

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ADMINISTRATOR, CLIENT = "127.0.0.1", "127.0.0.2"
SHARE = 2

Need = tuple[Operation, ResourceType]

READ_GROUP = (Operation.READ, ResourceType.GROUP)
DELETE_GROUP = (Operation.DELETE, ResourceType.GROUP)
DESCRIBE_GROUP = (Operation.DESCRIBE, ResourceType.GROUP)
READ_TOPIC = (Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC = (Operation.WRITE, ResourceType.TOPIC)
DESCRIBE_TOPIC = (Operation.DESCRIBE, ResourceType.TOPIC)
WRITE_TRANSACTION = (Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTION = (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
IDEMPOTENT_WRITE = (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
ALTER_CLUSTER = (Operation.ALTER, ResourceType.CLUSTER)
CLUSTER_ACTION = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
DESCRIBE_CLUSTER = (Operation.DESCRIBE, ResourceType.CLUSTER)


class Restricted:
    """A node whose client may do only what ACLs allow, and whose administrator may do everything."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.admin = Wire(bootstrap_servers, source=ADMINISTRATOR)
        self.client = Wire(bootstrap_servers, source=CLIENT)
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
            self._create((Operation.ALL, kind), "*", ADMINISTRATOR)
        self._create((Operation.ALL, ResourceType.CLUSTER), CLUSTER_NAME, ADMINISTRATOR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.socket.close()
        self.client.socket.close()

    def allow(self, need: Need, name: str) -> None:
        self._create(need, _resource(need, name), CLIENT)

    def _create(self, need: Need, name: str, host: str) -> None:
        operation, kind = need
        creation = m.CreateAclsRequest.AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal="User:ANONYMOUS",
            host=host,
            operation=operation,
            permission_type=PermissionType.ALLOW,
        )
        [result] = self.admin.ask(m.CreateAclsRequest(creations=[creation]), m.CreateAclsResponse).results
        assert result.error_code == 0, result.error_message

    def revoke(self, need: Need, name: str | None) -> None:
        """Take a permission of the client back; without a name, on all resources of the type."""
        operation, kind = need
        chosen = m.DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=kind,
            resource_name_filter=None if name is None else _resource(need, name),
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=CLIENT,
            operation=operation,
            permission_type=PermissionType.ANY,
        )
        [result] = self.admin.ask(m.DeleteAclsRequest(filters=[chosen]), m.DeleteAclsResponse).filter_results
        assert result.error_code == 0, result.error_message

    def commit(self, group_id: str, topic: str) -> None:
        """Commit an offset as the administrator, so that the group exists."""
        request = commit_request(group_id, topic)
        response = self.admin.ask(request, m.OffsetCommitResponse, 9)
        assert error_codes(response) == {0}


def _resource(need: Need, name: str) -> str:
    return CLUSTER_NAME if need[1] is ResourceType.CLUSTER else name


@pytest.fixture(scope="module")
def connections() -> Iterator[Restricted]:
    with Cluster(SETTINGS) as node, Restricted(node.bootstrap_servers) as both:
        find_coordinator(both.admin, "any", GROUP)
        find_coordinator(both.admin, "any", TRANSACTION)
        yield both


@pytest.fixture
def restricted(connections: Restricted) -> Iterator[Restricted]:
    """The connections to the node that the tests share, with a client that may do nothing at first."""
    yield connections
    connections.revoke((Operation.ANY, ResourceType.ANY), None)


def error_codes(struct: MessageStruct) -> set[int]:
    """All error codes in a response."""
    codes: set[int] = set()
    for field in struct.FIELDS:
        value = getattr(struct, field)
        if field.endswith("error_code"):
            codes.add(value)
        elif isinstance(value, list):
            codes.update(*(error_codes(item) for item in value if isinstance(item, MessageStruct)))
    return codes


# Requests


def commit_request(group_id: str, topic: str, topic_id: bytes = bytes(16)) -> m.OffsetCommitRequest:
    partition = m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    named = m.OffsetCommitRequest.OffsetCommitRequestTopic(
        name=topic, topic_id=topic_id, partitions=[partition]
    )
    return m.OffsetCommitRequest(group_id=group_id, topics=[named])


def join(name: str, _topic_id: bytes) -> m.JoinGroupRequest:
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return m.JoinGroupRequest(
        group_id=name, session_timeout_ms=10_000, protocol_type="consumer", protocols=[protocol]
    )


def sync(name: str, _topic_id: bytes) -> m.SyncGroupRequest:
    return m.SyncGroupRequest(
        group_id=name, generation_id=1, member_id="m", protocol_type="consumer", protocol_name="range"
    )


def leave(name: str, _topic_id: bytes) -> m.LeaveGroupRequest:
    return m.LeaveGroupRequest(
        group_id=name, member_id="m", members=[m.LeaveGroupRequest.MemberIdentity(member_id="m")]
    )


def commit(name: str, topic_id: bytes) -> m.OffsetCommitRequest:
    return commit_request(name, name, topic_id)


def fetch_offsets(name: str, topic_id: bytes) -> m.OffsetFetchRequest:
    topic = m.OffsetFetchRequest.OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
    group = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=[topic])
    return m.OffsetFetchRequest(groups=[group])


def fetch_offsets_of_one_group(name: str, _topic_id: bytes) -> m.OffsetFetchRequest:
    topic = m.OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=[0])
    return m.OffsetFetchRequest(group_id=name, topics=[topic])


def delete_offsets(name: str, _topic_id: bytes) -> m.OffsetDeleteRequest:
    partition = m.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
    topic = m.OffsetDeleteRequest.OffsetDeleteRequestTopic(name=name, partitions=[partition])
    return m.OffsetDeleteRequest(group_id=name, topics=[topic])


def find(kind: int) -> Callable[[str, bytes], m.FindCoordinatorRequest]:
    def request(name: str, topic_id: bytes) -> m.FindCoordinatorRequest:
        key = f"{name}:{uuid_to_text(topic_id)}:0" if kind == SHARE else name
        return m.FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])

    return request


def init(name: str | None, _topic_id: bytes = b"") -> m.InitProducerIdRequest:
    return m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)


def add_partitions(name: str, _topic_id: bytes) -> m.AddPartitionsToTxnRequest:
    """The request of a client (version 3), and that of a broker."""
    topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=[0])
    transaction = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=name, producer_id=12345, topics=[topic]
    )
    return m.AddPartitionsToTxnRequest(
        transactions=[transaction],
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=12345,
        v3_and_below_topics=[topic],
    )


def commit_in_transaction(name: str, _topic_id: bytes) -> m.TxnOffsetCommitRequest:
    partition = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=0
    )
    topic = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=[partition])
    return m.TxnOffsetCommitRequest(
        transactional_id=name, group_id=name, producer_id=12345, producer_epoch=0, topics=[topic]
    )


def write_markers(name: str, _topic_id: bytes) -> m.WriteTxnMarkersRequest:
    topic = m.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=[0])
    marker = m.WriteTxnMarkersRequest.WritableTxnMarker(producer_id=12345, topics=[topic])
    return m.WriteTxnMarkersRequest(markers=[marker])


class Case(NamedTuple):
    """A request about a topic, a group and a transactional id of the same name, and what it needs."""

    title: str
    request: Callable[[str, bytes], Message]
    needs: tuple[Need, ...]
    version: int | None = None
    error: ErrorCode | None = None
    """The error without the permission, if it is not that of the resource's type."""


CASES = (
    Case("JoinGroup", join, (READ_GROUP,)),
    Case("JoinGroup-of-old-clients", join, (READ_GROUP,), 5),
    Case("SyncGroup", sync, (READ_GROUP,)),
    Case(
        "Heartbeat",
        lambda name, _: m.HeartbeatRequest(group_id=name, generation_id=1, member_id="m"),
        (READ_GROUP,),
    ),
    Case("LeaveGroup", leave, (READ_GROUP,)),
    Case("LeaveGroup-of-old-clients", leave, (READ_GROUP,), 2),
    Case("OffsetCommit-by-id", commit, (READ_GROUP, READ_TOPIC)),
    Case("OffsetCommit-by-name", commit, (READ_GROUP, READ_TOPIC), 9),
    Case("OffsetFetch-by-id", fetch_offsets, (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Case("OffsetFetch-by-name", fetch_offsets, (DESCRIBE_GROUP, DESCRIBE_TOPIC), 9),
    Case("OffsetFetch-of-one-group", fetch_offsets_of_one_group, (DESCRIBE_GROUP, DESCRIBE_TOPIC), 7),
    Case("OffsetFetch-of-old-clients", fetch_offsets_of_one_group, (DESCRIBE_GROUP, DESCRIBE_TOPIC), 1),
    Case("OffsetDelete", delete_offsets, (DELETE_GROUP, READ_TOPIC)),
    Case("DeleteGroups", lambda name, _: m.DeleteGroupsRequest(groups_names=[name]), (DELETE_GROUP,)),
    Case("DescribeGroups", lambda name, _: m.DescribeGroupsRequest(groups=[name]), (DESCRIBE_GROUP,)),
    Case("FindCoordinator-of-a-group", find(GROUP), (DESCRIBE_GROUP,)),
    Case("FindCoordinator-of-old-clients", find(GROUP), (DESCRIBE_GROUP,), 3),
    Case("FindCoordinator-of-transactions", find(TRANSACTION), (DESCRIBE_TRANSACTION,)),
    Case("FindCoordinator-of-a-share-group", find(SHARE), (CLUSTER_ACTION,)),
    Case("InitProducerId", init, (WRITE_TRANSACTION,)),
    Case("InitProducerId-idempotent", lambda *_: init(None), (IDEMPOTENT_WRITE,)),
    Case(
        "InitProducerId-of-a-writer",
        lambda *_: init(None),
        (WRITE_TOPIC,),
        error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ),
    Case("AddPartitionsToTxn", add_partitions, (WRITE_TRANSACTION, WRITE_TOPIC), 3),
    Case("AddPartitionsToTxn-of-brokers", add_partitions, (CLUSTER_ACTION,)),
    Case(
        "AddOffsetsToTxn",
        lambda name, _: m.AddOffsetsToTxnRequest(transactional_id=name, producer_id=12345, group_id=name),
        (WRITE_TRANSACTION, READ_GROUP),
    ),
    Case(
        "EndTxn",
        lambda name, _: m.EndTxnRequest(transactional_id=name, producer_id=12345),
        (WRITE_TRANSACTION,),
    ),
    Case("TxnOffsetCommit", commit_in_transaction, (WRITE_TRANSACTION, READ_GROUP, READ_TOPIC)),
    Case("WriteTxnMarkers", write_markers, (ALTER_CLUSTER,)),
    Case("WriteTxnMarkers-of-brokers", write_markers, (CLUSTER_ACTION,)),
    Case(
        "DescribeTransactions",
        lambda name, _: m.DescribeTransactionsRequest(transactional_ids=[name]),
        (DESCRIBE_TRANSACTION,),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_the_permissions_suffice_and_each_is_needed(case: Case, restricted: Restricted) -> None:
    name = case.title
    request = case.request(name, restricted.admin.create_topic(name))
    key = ApiKey(request.ID)
    named = {(needed.operation, needed.resource_type) for needed in apis()[key].permissions}
    assert named >= set(case.needs)

    def asked() -> set[int]:
        restricted.commit(name, name)
        return error_codes(restricted.client.ask(request, response_class(key), case.version))

    for need in case.needs:
        restricted.allow(need, name)
    assert not asked() & set(AUTHORIZATION_FAILED.values())
    for need in case.needs:
        restricted.revoke(need, name)
        assert (case.error or AUTHORIZATION_FAILED[need[1]]) in asked()
        restricted.allow(need, name)


# What others have stays hidden


def test_groups_are_listed_that_the_client_may_describe(restricted: Restricted) -> None:
    restricted.admin.create_topic("listed")
    for group in ("listed-1", "listed-2"):
        restricted.commit(group, "listed")

    def listed() -> list[str]:
        response = restricted.client.ask(m.ListGroupsRequest(), m.ListGroupsResponse)
        assert response.error_code == 0
        return sorted(group.group_id for group in response.groups if group.group_id.startswith("listed-"))

    assert listed() == []
    restricted.allow(READ_GROUP, "listed-2")
    assert listed() == ["listed-2"]
    restricted.allow(DESCRIBE_CLUSTER, "")
    assert listed() == ["listed-1", "listed-2"]


def test_described_groups_show_what_the_client_may_do(restricted: Restricted) -> None:
    restricted.admin.create_topic("described")
    for group in ("described-mine", "described-hidden"):
        restricted.commit(group, "described")
    restricted.allow(READ_GROUP, "described-mine")
    request = m.DescribeGroupsRequest(
        groups=["described-mine", "described-hidden"], include_authorized_operations=True
    )
    hidden, mine = restricted.client.ask(request, m.DescribeGroupsResponse).groups
    assert (hidden.group_id, hidden.error_code) == ("described-hidden", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert hidden.group_state == ""
    assert (mine.group_id, mine.error_code) == ("described-mine", 0)
    assert mine.authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE


def test_some_groups_of_a_request_are_deleted(restricted: Restricted) -> None:
    restricted.admin.create_topic("deleted")
    for group in ("deleted-mine", "deleted-hidden"):
        restricted.commit(group, "deleted")
    restricted.allow(DELETE_GROUP, "deleted-mine")
    request = m.DeleteGroupsRequest(groups_names=["deleted-hidden", "deleted-mine"])
    results = restricted.client.ask(request, m.DeleteGroupsResponse).results
    assert [(result.group_id, result.error_code) for result in results] == [
        ("deleted-mine", 0),
        ("deleted-hidden", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ]
    left = restricted.admin.ask(m.ListGroupsRequest(), m.ListGroupsResponse).groups
    assert {"deleted-mine", "deleted-hidden"} & {group.group_id for group in left} == {"deleted-hidden"}


@pytest.mark.parametrize("version", [9, 10])
def test_all_offsets_leave_out_hidden_topics(version: int, restricted: Restricted) -> None:
    group, mine, hidden = (f"{name}-{version}" for name in ("offsets", "offsets-mine", "offsets-hidden"))
    topic_id = restricted.admin.create_topic(mine)
    restricted.admin.create_topic(hidden)
    restricted.commit(group, mine)
    restricted.commit(group, hidden)
    restricted.allow(DESCRIBE_GROUP, group)
    restricted.allow(DESCRIBE_TOPIC, mine)
    asked = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
    response = restricted.client.ask(
        m.OffsetFetchRequest(groups=[asked]), m.OffsetFetchResponse, version
    ).groups[0]
    assert response.error_code == 0
    assert [topic.topic_id if version == 10 else topic.name for topic in response.topics] == [
        topic_id if version == 10 else mine
    ]


def test_hidden_topics_look_like_those_that_do_not_exist(restricted: Restricted) -> None:
    restricted.allow(READ_GROUP, "reader")
    hidden_id = restricted.admin.create_topic("hidden")
    for topic in ("hidden", "nowhere"):
        response = restricted.client.ask(commit_request("reader", topic), m.OffsetCommitResponse, 9)
        assert error_codes(response) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    by_id = {
        topic_id: error_codes(
            restricted.client.ask(commit_request("reader", "", topic_id), m.OffsetCommitResponse)
        )
        for topic_id in (hidden_id, b"n" * 16)
    }
    assert by_id == {
        hidden_id: {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        b"n" * 16: {ErrorCode.UNKNOWN_TOPIC_ID},
    }


def test_transactions_hide_topics_and_are_hidden(restricted: Restricted) -> None:
    for topic in ("txn-mine", "txn-hidden"):
        restricted.admin.create_topic(topic)
    for transactional_id in ("txn-mine", "txn-hidden"):
        producer = Transactor(restricted.admin, transactional_id, version_2=False).begin()
        for topic in ("txn-mine", "txn-hidden"):
            assert producer.add_partitions(topic, 0) == [ErrorCode.NONE]
    restricted.allow(WRITE_TRANSACTION, "txn-mine")
    restricted.allow(READ_TOPIC, "txn-mine")
    listed = restricted.client.ask(m.ListTransactionsRequest(), m.ListTransactionsResponse)
    assert [state.transactional_id for state in listed.transaction_states] == ["txn-mine"]
    request = m.DescribeTransactionsRequest(transactional_ids=["txn-hidden", "txn-mine"])
    hidden, mine = restricted.client.ask(request, m.DescribeTransactionsResponse).transaction_states
    assert (hidden.error_code, hidden.topics) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, [])
    assert (hidden.transactional_id, hidden.producer_id) == ("txn-hidden", 0)
    assert mine.error_code == 0
    assert [topic.topic for topic in mine.topics] == ["txn-mine"]


def test_one_hidden_topic_keeps_the_others_out_of_a_transaction(restricted: Restricted) -> None:
    for topic in ("added-mine", "added-hidden"):
        restricted.admin.create_topic(topic)
    restricted.allow(WRITE_TRANSACTION, "added")
    restricted.allow(WRITE_TOPIC, "added-mine")
    named = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    request = m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="added",
        v3_and_below_producer_id=12345,
        v3_and_below_topics=[named(name=name, partitions=[0]) for name in ("added-mine", "added-hidden")],
    )
    response = restricted.client.ask(request, m.AddPartitionsToTxnResponse, 3)
    assert [error_codes(topic) for topic in response.results_by_topic_v3_and_below] == [
        {ErrorCode.OPERATION_NOT_ATTEMPTED},
        {ErrorCode.TOPIC_AUTHORIZATION_FAILED},
    ]


def test_clients_cannot_add_internal_topics_to_a_transaction(wire: Wire) -> None:
    producer = Transactor(wire, "internal-topics", version_2=False).begin()
    find_coordinator(wire, "any", GROUP)
    assert producer.add_partitions("__consumer_offsets", 0) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_only_keys_that_the_client_may_describe_create_the_coordinators_topic(
    start_node: Callable[..., Cluster],
) -> None:
    node = start_node(**{name.replace(".", "_"): value for name, value in SETTINGS.items()})
    request = find(TRANSACTION)("x", b"")

    def topics(admin: Wire) -> list[str | None]:
        return [topic.name for topic in admin.ask(m.MetadataRequest(topics=None), m.MetadataResponse).topics]

    with Restricted(node.bootstrap_servers) as restricted:
        response = restricted.client.ask(request, m.FindCoordinatorResponse)
        assert error_codes(response) == {0, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        assert topics(restricted.admin) == []
        restricted.allow(DESCRIBE_TRANSACTION, "x")
        restricted.client.ask(request, m.FindCoordinatorResponse)
        assert topics(restricted.admin) == ["__transaction_state"]
