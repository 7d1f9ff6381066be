"""DescribeGroups, ListGroups and DeleteGroups: the requests of administrators."""

from collections.abc import Iterable

from penstock.coordinators.group.group import ClassicGroup
from penstock.coordinators.group.records import group_tombstone, offset_tombstone
from penstock.coordinators.group.results import Caller
from penstock.coordinators.group.shard import Shard
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.records import Records
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeGroupsResponse, ListGroupsResponse

__all__ = ["handle_delete_group", "handle_describe_group", "handle_list_groups"]

GROUP_ID_NOT_FOUND_VERSION = 6
"""The first version that reports a missing group as an error (KIP-1043); older ones describe it as Dead."""

DescribedGroup = DescribeGroupsResponse.DescribedGroup


def handle_describe_group(shard: Shard, group_id: str, caller: Caller) -> DescribedGroup:
    """Describe one group; protocol and subscriptions appear only while it is Stable, assignments always."""
    group = shard.classic_group(group_id)
    if group is None or not group.is_durable:  # the append of a group that is not committed may still fail
        return _describe_missing(shard, group_id, caller)
    is_stable = group.state is ClassicGroupState.STABLE
    protocol = (group.protocol_name or "") if is_stable else ""
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
        members=[
            DescribeGroupsResponse.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def _describe_missing(shard: Shard, group_id: str, caller: Caller) -> DescribedGroup:
    described = DescribedGroup(
        group_id=group_id,
        group_state=ClassicGroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )
    if caller.api_version >= GROUP_ID_NOT_FOUND_VERSION:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        is_other_type = group_id in shard.groups
        described.error_message = (
            f"Group {group_id} is not a classic group." if is_other_type else (f"Group {group_id} not found.")
        )
    return described


def handle_list_groups(
    shard: Shard, states: Iterable[str], types: Iterable[str]
) -> list[ListGroupsResponse.ListedGroup]:
    """List the groups that match the states and types, compared without case; an empty filter matches all."""
    wanted_states = {state.lower().strip() for state in states}
    wanted_types = {type_.lower() for type_ in types}
    return [
        ListGroupsResponse.ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=group.type.value,
        )
        for group in shard.groups.values()
        if isinstance(group, ClassicGroup)
        and group.is_durable
        and (not wanted_states or group.state.value.lower() in wanted_states)
        and (not wanted_types or group.type.value in wanted_types)
    ]


def handle_delete_group(shard: Shard, group_id: str) -> tuple[Records, ErrorCode]:
    """Delete an empty group and all of its committed offsets."""
    group = shard.classic_group(group_id)
    if group is None:
        return [], ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not ClassicGroupState.EMPTY:
        return [], ErrorCode.NON_EMPTY_GROUP
    committed = {
        (topic, partition)
        for topic, partitions in shard.offsets.of_group(group_id).items()
        for partition in partitions
    }
    committed.update(shard.offsets.unstable_partitions(group_id))
    records = [offset_tombstone(group_id, topic, partition) for topic, partition in sorted(committed)]
    shard.counters.offset_deletions += len(records)
    return [*records, group_tombstone(group_id)], ErrorCode.NONE
