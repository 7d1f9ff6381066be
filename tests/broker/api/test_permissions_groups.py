"""The permissions of the APIs of groups and transactions, and what clients without them cannot see.

The client and the administrator are at different addresses, so that ACLs can tell them apart.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from acl_wire import ADMINISTRATOR, CLIENT, SETTINGS, Grant, allow, close_to_others, error_codes, forget
from broker_wire import Wire
from penstock.broker.api_table import apis
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey, response_class
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.uuids import uuid_to_text
from penstock.security.acls import Operation
from penstock.security.permissions import AUTHORIZATION_FAILED
from penstock.testing import Cluster
from transaction_wire import GROUP, TRANSACTION, TWO_PHASE_COMMIT, Transactor, find_coordinator

SHARE = 2
EVERY_REFUSAL = set(AUTHORIZATION_FAILED.values())


class Connections(NamedTuple):
    """A client that may do only what ACLs allow, and an administrator that may do everything."""

    client: Wire
    admin: Wire

    def commit(self, group_id: str, topic: str) -> None:
        """Commit an offset as the administrator, so that the group exists."""
        request = commit_request(group_id, topic)
        assert error_codes(self.admin.ask(request, m.OffsetCommitResponse, 9)) == [0]


@contextmanager
def connected(node: Cluster) -> Iterator[Connections]:
    """Connect to a node, and close it to the client."""
    servers = node.bootstrap_servers
    with Wire(servers, source=CLIENT) as client, Wire(servers, source=ADMINISTRATOR) as admin:
        close_to_others(admin)
        yield Connections(client, admin)


@pytest.fixture(scope="module")
def connections() -> Iterator[Connections]:
    with Cluster(SETTINGS | TWO_PHASE_COMMIT) as node, connected(node) as both:
        find_coordinator(both.admin, "any", GROUP)
        find_coordinator(both.admin, "any", TRANSACTION)
        yield both


@pytest.fixture
def restricted(connections: Connections) -> Iterator[Connections]:
    """The connections that the tests share, with a client that may do nothing at first."""
    yield connections
    forget(connections.admin)


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


def init_two_phase(name: str, _topic_id: bytes) -> m.InitProducerIdRequest:
    return m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000, enable2_pc=True)


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
    needs: tuple[str, ...]
    """Operations and types of resources."""
    version: int | None = None
    error: ErrorCode | None = None
    """The error without the permission, if it is not that of the resource's type."""


CASES = (
    Case("JoinGroup", join, ("read group",)),
    Case("JoinGroup-of-old-clients", join, ("read group",), 5),
    Case("SyncGroup", sync, ("read group",)),
    Case(
        "Heartbeat",
        lambda name, _: m.HeartbeatRequest(group_id=name, generation_id=1, member_id="m"),
        ("read group",),
    ),
    Case("LeaveGroup", leave, ("read group",)),
    Case("LeaveGroup-of-old-clients", leave, ("read group",), 2),
    Case("OffsetCommit-by-id", commit, ("read group", "read topic")),
    Case("OffsetCommit-by-name", commit, ("read group", "read topic"), 9),
    Case("OffsetFetch-by-id", fetch_offsets, ("describe group", "describe topic")),
    Case("OffsetFetch-by-name", fetch_offsets, ("describe group", "describe topic"), 9),
    Case("OffsetFetch-of-one-group", fetch_offsets_of_one_group, ("describe group", "describe topic"), 7),
    Case("OffsetFetch-of-old-clients", fetch_offsets_of_one_group, ("describe group", "describe topic"), 1),
    Case("OffsetDelete", delete_offsets, ("delete group", "read topic")),
    Case("DeleteGroups", lambda name, _: m.DeleteGroupsRequest(groups_names=[name]), ("delete group",)),
    Case("DescribeGroups", lambda name, _: m.DescribeGroupsRequest(groups=[name]), ("describe group",)),
    Case("FindCoordinator-of-a-group", find(GROUP), ("describe group",)),
    Case("FindCoordinator-of-old-clients", find(GROUP), ("describe group",), 3),
    Case("FindCoordinator-of-transactions", find(TRANSACTION), ("describe transactional_id",)),
    Case("FindCoordinator-of-a-share-group", find(SHARE), ("cluster_action cluster",)),
    Case("InitProducerId", init, ("write transactional_id",)),
    Case(
        "InitProducerId-of-two-phase-commit",
        init_two_phase,
        ("write transactional_id", "two_phase_commit transactional_id"),
        6,
    ),
    Case("InitProducerId-idempotent", lambda *_: init(None), ("idempotent_write cluster",)),
    Case(
        "InitProducerId-of-a-writer",
        lambda *_: init(None),
        ("write topic",),
        error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ),
    Case("AddPartitionsToTxn", add_partitions, ("write transactional_id", "write topic"), 3),
    Case("AddPartitionsToTxn-of-brokers", add_partitions, ("cluster_action cluster",)),
    Case(
        "AddOffsetsToTxn",
        lambda name, _: m.AddOffsetsToTxnRequest(transactional_id=name, producer_id=12345, group_id=name),
        ("write transactional_id", "read group"),
    ),
    Case(
        "EndTxn",
        lambda name, _: m.EndTxnRequest(transactional_id=name, producer_id=12345),
        ("write transactional_id",),
    ),
    Case("TxnOffsetCommit", commit_in_transaction, ("write transactional_id", "read group", "read topic")),
    Case("WriteTxnMarkers", write_markers, ("alter cluster",)),
    Case("WriteTxnMarkers-of-brokers", write_markers, ("cluster_action cluster",)),
    Case(
        "DescribeTransactions",
        lambda name, _: m.DescribeTransactionsRequest(transactional_ids=[name]),
        ("describe transactional_id",),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_the_permissions_suffice_and_each_is_needed(case: Case, restricted: Connections) -> None:
    name, admin = case.title, restricted.admin
    request = case.request(name, admin.create_topic(name))
    key = ApiKey(request.ID)
    grants = [need if need.endswith(" cluster") else f"{need} {name}" for need in case.needs]
    named = {(needed.operation, needed.resource_type) for needed in apis()[key].permissions}
    assert named >= {Grant.of(grant)[:2] for grant in grants}

    def errors() -> set[ErrorCode]:
        restricted.commit(name, name)
        response = restricted.client.ask(request, response_class(key), case.version)
        return set(error_codes(response))

    allow(admin, *grants)
    assert not errors() & EVERY_REFUSAL
    for grant in grants:
        forget(admin)
        allow(admin, *(other for other in grants if other != grant))
        assert (case.error or AUTHORIZATION_FAILED[Grant.of(grant).kind]) in errors()


# What others have stays hidden


def test_groups_are_listed_that_the_client_may_describe(restricted: Connections) -> None:
    restricted.admin.create_topic("listed")
    for group in ("listed-1", "listed-2"):
        restricted.commit(group, "listed")

    def listed() -> list[str]:
        response = restricted.client.ask(m.ListGroupsRequest(), m.ListGroupsResponse)
        assert response.error_code == 0
        return sorted(group.group_id for group in response.groups if group.group_id.startswith("listed-"))

    assert listed() == []
    allow(restricted.admin, "read group listed-2")
    assert listed() == ["listed-2"]
    allow(restricted.admin, "describe cluster")
    assert listed() == ["listed-1", "listed-2"]


def test_described_groups_show_what_the_client_may_do(restricted: Connections) -> None:
    restricted.admin.create_topic("described")
    for group in ("described-mine", "described-hidden"):
        restricted.commit(group, "described")
    allow(restricted.admin, "read group described-mine")
    request = m.DescribeGroupsRequest(
        groups=["described-mine", "described-hidden"], include_authorized_operations=True
    )
    hidden, mine = restricted.client.ask(request, m.DescribeGroupsResponse).groups
    assert (hidden.group_id, hidden.error_code) == ("described-hidden", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert hidden.group_state == ""
    assert (mine.group_id, mine.error_code) == ("described-mine", 0)
    assert mine.authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE


def test_some_groups_of_a_request_are_deleted(restricted: Connections) -> None:
    restricted.admin.create_topic("deleted")
    for group in ("deleted-mine", "deleted-hidden"):
        restricted.commit(group, "deleted")
    allow(restricted.admin, "delete group deleted-mine")
    request = m.DeleteGroupsRequest(groups_names=["deleted-hidden", "deleted-mine"])
    results = restricted.client.ask(request, m.DeleteGroupsResponse).results
    assert [(result.group_id, result.error_code) for result in results] == [
        ("deleted-mine", 0),
        ("deleted-hidden", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ]
    left = restricted.admin.ask(m.ListGroupsRequest(), m.ListGroupsResponse).groups
    assert {"deleted-mine", "deleted-hidden"} & {group.group_id for group in left} == {"deleted-hidden"}


@pytest.mark.parametrize("version", [9, 10])
def test_all_offsets_leave_out_hidden_topics(version: int, restricted: Connections) -> None:
    group, mine, hidden = (f"{name}-{version}" for name in ("offsets", "offsets-mine", "offsets-hidden"))
    topic_id = restricted.admin.create_topic(mine)
    restricted.admin.create_topic(hidden)
    restricted.commit(group, mine)
    restricted.commit(group, hidden)
    allow(restricted.admin, f"describe group {group}")
    allow(restricted.admin, f"describe topic {mine}")
    asked = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
    response = restricted.client.ask(
        m.OffsetFetchRequest(groups=[asked]), m.OffsetFetchResponse, version
    ).groups[0]
    assert response.error_code == 0
    assert [topic.topic_id if version == 10 else topic.name for topic in response.topics] == [
        topic_id if version == 10 else mine
    ]


def test_hidden_topics_look_like_those_that_do_not_exist(restricted: Connections) -> None:
    allow(restricted.admin, "read group reader")
    hidden_id = restricted.admin.create_topic("hidden")
    for topic in ("hidden", "nowhere"):
        response = restricted.client.ask(commit_request("reader", topic), m.OffsetCommitResponse, 9)
        assert error_codes(response) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    by_id = {
        topic_id: error_codes(
            restricted.client.ask(commit_request("reader", "", topic_id), m.OffsetCommitResponse)
        )
        for topic_id in (hidden_id, b"n" * 16)
    }
    assert by_id == {
        hidden_id: [ErrorCode.TOPIC_AUTHORIZATION_FAILED],
        b"n" * 16: [ErrorCode.UNKNOWN_TOPIC_ID],
    }


def test_transactions_hide_topics_and_are_hidden(restricted: Connections) -> None:
    for topic in ("txn-mine", "txn-hidden"):
        restricted.admin.create_topic(topic)
    for transactional_id in ("txn-mine", "txn-hidden"):
        producer = Transactor(restricted.admin, transactional_id, version_2=False).begin()
        for topic in ("txn-mine", "txn-hidden"):
            assert producer.add_partitions(topic, 0) == [ErrorCode.NONE]
    allow(restricted.admin, "write transactional_id txn-mine")
    allow(restricted.admin, "read topic txn-mine")
    listed = restricted.client.ask(m.ListTransactionsRequest(), m.ListTransactionsResponse)
    assert [state.transactional_id for state in listed.transaction_states] == ["txn-mine"]
    request = m.DescribeTransactionsRequest(transactional_ids=["txn-hidden", "txn-mine"])
    hidden, mine = restricted.client.ask(request, m.DescribeTransactionsResponse).transaction_states
    assert (hidden.error_code, hidden.topics) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, [])
    assert (hidden.transactional_id, hidden.producer_id) == ("txn-hidden", 0)
    assert mine.error_code == 0
    assert [topic.topic for topic in mine.topics] == ["txn-mine"]


def test_one_hidden_topic_keeps_the_others_out_of_a_transaction(restricted: Connections) -> None:
    for topic in ("added-mine", "added-hidden"):
        restricted.admin.create_topic(topic)
    allow(restricted.admin, "write transactional_id added")
    allow(restricted.admin, "write topic added-mine")
    named = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    request = m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="added",
        v3_and_below_producer_id=12345,
        v3_and_below_topics=[named(name=name, partitions=[0]) for name in ("added-mine", "added-hidden")],
    )
    response = restricted.client.ask(request, m.AddPartitionsToTxnResponse, 3)
    assert [error_codes(topic) for topic in response.results_by_topic_v3_and_below] == [
        [ErrorCode.OPERATION_NOT_ATTEMPTED],
        [ErrorCode.TOPIC_AUTHORIZATION_FAILED],
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

    with connected(node) as (client, admin):
        [found] = client.ask(request, m.FindCoordinatorResponse).coordinators
        assert found.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert topics(admin) == []
        allow(admin, "describe transactional_id x")
        client.ask(request, m.FindCoordinatorResponse)
        assert topics(admin) == ["__transaction_state"]
