"""Administer a consumer group: list its members, and read and write its committed offsets.

This client never joins the group. It commits offsets as administrators do, without a member id, which a
coordinator allows while the group has no members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, TypeVar

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.connection import Connection
from penstock.client.connections.coordinators import CoordinatorKind, find_coordinator, require_version
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, GroupInUse, ServerError, UnsupportedByServer, error_from
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ZERO_UUID,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

T = TypeVar("T")

EXACTLY_ONCE: Final = "exactly-once"
"""Metadata of offsets that a sink commits in one transaction with its output.

No other writer may reset such an offset.
"""

_GROUPS_VERSION: Final = 8  # OffsetFetch for several groups (KIP-709, Kafka 3.0)
_BY_NAME_VERSION: Final = 9
"""The newest version of OffsetFetch used here.

Later ones use topic ids: a coordinator that does not know a new topic yet would seem to have no offset for
it.
"""

_NO_LEADER_EPOCH: Final = -1
NO_OFFSET: Final = -1
"""The offset of a commit for its metadata alone; readers of offsets do not see it."""

_MEMBERS_HAVE_IT: Final = frozenset(
    (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
    )
)
"""The errors of a commit without a member id while the group has members."""

_TOPIC_IS_GONE: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)


class CommittedOffset(NamedTuple):
    """The next offset to read; ``metadata`` is the committer's own text."""

    offset: int
    leader_epoch: int = _NO_LEADER_EPOCH
    metadata: str = ""


class GroupMember(NamedTuple):
    member_id: str
    client_id: str
    host: str

    def __str__(self) -> str:
        return f"{self.client_id} at {self.host}"


class ConsumerGroup:
    """One consumer group. It uses the cluster's connections, so it belongs to the cluster's thread.

    Every call is one attempt; `Cluster.retry` repeats it. After a failure the next call looks up the
    coordinator again.
    """

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.group_id = group_id
        self._cluster = cluster
        self._coordinator: int | None = None

    def members(self) -> list[GroupMember]:
        """List the group's current members, by the classic or the consumer protocol (KIP-848).

        Raises ServerError.
        """
        return self._with_coordinator(self._members)

    def require_no_members(self) -> None:
        """Raise GroupInUse if the group has members."""
        members = self.members()
        if members:
            shown = ", ".join(map(str, members[:3])) + (", …" if len(members) > 3 else "")
            raise GroupInUse(
                f"the consumer group '{self.group_id}' has {len(members)} live "
                f"member{'s' if len(members) > 1 else ''} ({shown}): expected a group that only the query "
                "uses. Stop these consumers, or set another group.id"
            )

    def committed(
        self, partitions: Collection[TopicPartition], *, require_stable: bool = True
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets; a partition without one, or of a deleted topic, is left out.

        With ``require_stable`` this raises a retriable ServerError with UNSTABLE_OFFSET_COMMIT while a
        transaction has offsets of the group pending (KIP-447); without it the last committed ones are
        returned.
        """
        if not partitions:
            return {}
        return self._with_coordinator(
            lambda connection: _with_offset(self._fetched(connection, partitions, require_stable))
        )

    def notes(
        self, partitions: Collection[TopicPartition], *, require_stable: bool = True
    ) -> dict[TopicPartition, str]:
        """The metadata of committed offsets, including commits without an offset (`NO_OFFSET`).

        Raises the same errors as `committed`.
        """
        if not partitions:
            return {}
        found = self._with_coordinator(
            lambda connection: self._fetched(connection, partitions, require_stable)
        )
        return {tp: each.metadata for tp, each in found.items() if each.metadata}

    def all_committed(self, *, require_stable: bool = True) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of all partitions that have one.

        With ``require_stable`` this raises as `committed` does if such a partition has a pending offset.
        """
        return self._with_coordinator(
            lambda connection: _with_offset(self._fetched(connection, None, require_stable))
        )

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit all offsets in one request, except those of deleted topics.

        Raises GroupInUse if the group has members, else ServerError.
        """
        if offsets:
            self._with_coordinator(lambda connection: self._commit(connection, offsets))

    def delete_offsets(self, partitions: Collection[TopicPartition]) -> None:
        """Delete the committed offsets of these partitions, if there are any.

        Raises ServerError, for example GROUP_SUBSCRIBED_TO_TOPIC while members read a topic.
        """
        if partitions:
            self._with_coordinator(lambda connection: self._delete_offsets(connection, partitions))

    def delete(self) -> None:
        """Delete the group with its offsets, if it exists. Raises ServerError if it has members."""
        self._with_coordinator(self._delete)

    def _with_coordinator(self, ask: Callable[[Connection], T]) -> T:
        try:
            if self._coordinator is None:
                self._coordinator = find_coordinator(self._cluster, CoordinatorKind.GROUP, self.group_id)
            return ask(self._cluster.connection(self._coordinator))
        except ClientError as error:
            if self._coordinator is not None:
                if not isinstance(error, ServerError | GroupInUse):
                    self._cluster.disconnect(self._coordinator)
                self._coordinator = None
            raise

    def _delete(self, connection: Connection) -> None:
        request = DeleteGroupsRequest(groups_names=[self.group_id])
        [result] = connection.call(request, DeleteGroupsResponse).results
        if result.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            raise error_from(result.error_code, f"deletion of group '{self.group_id}'")

    def _delete_offsets(self, connection: Connection, partitions: Collection[TopicPartition]) -> None:
        topics = [
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=number)
                    for number in numbers
                ],
            )
            for name, numbers in _by_topic(partitions).items()
        ]
        request = OffsetDeleteRequest(group_id=self.group_id, topics=topics)
        response = connection.call(request, OffsetDeleteResponse)
        if response.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            raise error_from(response.error_code, f"offsets of group '{self.group_id}'")
        for topic in response.topics:
            for answer in topic.partitions:
                if answer.error_code not in (ErrorCode.NONE, *_TOPIC_IS_GONE):
                    tp = TopicPartition(topic.name, answer.partition_index)
                    raise error_from(answer.error_code, f"offset of {tp} in group '{self.group_id}'")

    def _members(self, connection: Connection) -> list[GroupMember]:
        described = connection.call(DescribeGroupsRequest(groups=[self.group_id]), DescribeGroupsResponse)
        [classic] = described.groups
        if classic.error_code == ErrorCode.NONE:
            if classic.members:
                return [GroupMember(m.member_id, m.client_id, m.client_host) for m in classic.members]
            if classic.group_state != "Dead":
                return []
        elif classic.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise error_from(classic.error_code, f"group '{self.group_id}'", classic.error_message)
        try:
            connection.version_of(ApiKey.CONSUMER_GROUP_DESCRIBE)
        except UnsupportedByServer:
            return []
        request = ConsumerGroupDescribeRequest(group_ids=[self.group_id])
        [group] = connection.call(request, ConsumerGroupDescribeResponse).groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return []
        if group.error_code:
            raise error_from(group.error_code, f"group '{self.group_id}'", group.error_message)
        return [GroupMember(m.member_id, m.client_id, m.client_host) for m in group.members]

    def _fetched(
        self, connection: Connection, partitions: Collection[TopicPartition] | None, require_stable: bool
    ) -> dict[TopicPartition, CommittedOffset]:
        """Fetch the committed offsets (``partitions`` None: all), including partitions without an offset."""
        require_version(connection, ApiKey.OFFSET_FETCH, _GROUPS_VERSION, "Kafka 3.0")
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = None
        ids: dict[str, bytes] = {}
        if partitions is not None:
            by_topic = _by_topic(partitions)
            ids = self._topic_ids(by_topic)
            topics = [
                OffsetFetchRequest.OffsetFetchRequestTopics(
                    name=name, topic_id=ids[name], partition_indexes=numbers
                )
                for name, numbers in by_topic.items()
                if name in ids
            ]
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)
        response = connection.call(
            OffsetFetchRequest(groups=[asked], require_stable=require_stable),
            OffsetFetchResponse,
            newest=_BY_NAME_VERSION,
        )
        [group] = response.groups
        if group.error_code:
            raise error_from(group.error_code, f"offsets of group '{self.group_id}'")
        names = {topic_id: name for name, topic_id in ids.items()}
        found: dict[TopicPartition, CommittedOffset] = {}
        for topic in group.topics:
            name = topic.name or names[topic.topic_id]
            for answer in topic.partitions:
                tp = TopicPartition(name, answer.partition_index)
                if answer.error_code in _TOPIC_IS_GONE:
                    self._cluster.forget([name])
                elif answer.error_code:
                    raise error_from(answer.error_code, f"offset of {tp} in group '{self.group_id}'")
                else:
                    found[tp] = CommittedOffset(
                        answer.committed_offset, answer.committed_leader_epoch, answer.metadata or ""
                    )
        return found

    def _commit(self, connection: Connection, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        by_topic = _by_topic(offsets)
        ids = self._topic_ids(by_topic)
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                topic_id=ids[name],
                partitions=[_to_commit(number, offsets[TopicPartition(name, number)]) for number in numbers],
            )
            for name, numbers in by_topic.items()
            if name in ids
        ]
        request = OffsetCommitRequest(group_id=self.group_id, topics=topics)
        names = {topic_id: name for name, topic_id in ids.items()}
        failure: ServerError | None = None
        for topic in connection.call(request, OffsetCommitResponse).topics:
            name = topic.name or names[topic.topic_id]
            for answer in topic.partitions:
                code = answer.error_code
                if code in _MEMBERS_HAVE_IT:
                    raise GroupInUse(
                        f"the consumer group '{self.group_id}' has members now: expected a group "
                        "that only the query uses. Stop its other consumers, or set another group.id"
                    )
                if code in _TOPIC_IS_GONE:
                    self._cluster.forget([name])
                elif code:
                    tp = TopicPartition(name, answer.partition_index)
                    failure = error_from(code, f"commit of {tp} in group '{self.group_id}'")
        if failure is not None:
            raise failure

    def _topic_ids(self, names: Collection[str]) -> dict[str, bytes]:
        """The id of each topic, `ZERO_UUID` if the brokers have no topic ids; deleted topics are left out."""
        known = self._cluster.topics(names)
        return {name: topic.topic_id or ZERO_UUID for name, topic in known.items()}


def _with_offset(
    committed: Mapping[TopicPartition, CommittedOffset],
) -> dict[TopicPartition, CommittedOffset]:
    return {tp: each for tp, each in committed.items() if each.offset >= 0}


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return by_topic


def _to_commit(
    partition: int, committed: CommittedOffset
) -> OffsetCommitRequest.OffsetCommitRequestPartition:
    return OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )
