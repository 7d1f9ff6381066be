"""The records of `__consumer_offsets`, in the versions that Apache Kafka 4.3 writes.

Group metadata is written in version 3. Offset commits are written in version 4, which holds the topic id,
unless the commit sets an expiry, which only version 1 can hold.
"""

from collections.abc import Iterable

from penstock.coordinators.group.group import ClassicGroup
from penstock.coordinators.group.member import Member
from penstock.coordinators.group.offset_store import CommittedOffset
from penstock.coordinators.records import CoordinatorRecord
from penstock.protocol.messages import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

__all__ = [
    "empty_group_record",
    "group_record",
    "group_tombstone",
    "offset_record",
    "offset_tombstone",
]

GROUP_METADATA_VALUE_VERSION = 3
OFFSET_COMMIT_VALUE_VERSION = 4
OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY = 1


def offset_record(group_id: str, topic: str, partition: int, offset: CommittedOffset) -> CoordinatorRecord:
    with_expiry = offset.expire_timestamp_ms is not None
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            commit_timestamp=offset.commit_timestamp_ms,
            expire_timestamp=-1 if offset.expire_timestamp_ms is None else offset.expire_timestamp_ms,
            topic_id=offset.topic_id,
        ),
        OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY if with_expiry else OFFSET_COMMIT_VALUE_VERSION,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def group_record(
    group: ClassicGroup, members: Iterable[Member], leader_id: str | None, assignments: dict[str, bytes]
) -> CoordinatorRecord:
    """The group's generation with these members; a member id without an assignment gets an empty one."""
    protocol = group.protocol_name
    return CoordinatorRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation_id,
            protocol=protocol,
            leader=leader_id,
            current_state_timestamp=group.state_timestamp_ms,
            members=[
                _member_metadata(member, protocol or "", assignments.get(member.member_id, b""))
                for member in members
            ],
        ),
        GROUP_METADATA_VALUE_VERSION,
    )


def _member_metadata(member: Member, protocol: str, assignment: bytes) -> GroupMetadataValue.MemberMetadata:
    return GroupMetadataValue.MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )


def empty_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """The record of a new group: generation 0 without members."""
    return CoordinatorRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=group.state_timestamp_ms,
            members=[],
        ),
        GROUP_METADATA_VALUE_VERSION,
    )


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id))
