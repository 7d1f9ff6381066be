"""Who reads which topics now: the members of consumer groups, by what they were assigned."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from penstock.client.cluster import Cluster
from penstock.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerProtocolAssignment,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

_CLASSIC, _CONSUMER = "classic", "consumer"


def readers_of_topics(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """By topic how many members of groups read some of it, and of how many groups they are. Raises
    ClientError.
    """
    members: Counter[str] = Counter()
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for node_id in cluster.refresh([]).brokers:
        for group_id, topics in _assigned(cluster, node_id):
            members.update(topics)
            for topic in topics:
                groups[topic].add(group_id)
    return {topic: (number, len(groups[topic])) for topic, number in members.items()}


def _assigned(cluster: Cluster, node_id: int) -> Iterator[tuple[str, set[str]]]:
    """The topics of each member of the groups that a broker coordinates."""
    connection = cluster.connection(node_id)
    listed = connection.call(ListGroupsRequest(), ListGroupsResponse).groups
    classic = [each.group_id for each in listed if each.group_type in ("", _CLASSIC)]
    if classic:
        answer = connection.call(DescribeGroupsRequest(groups=classic), DescribeGroupsResponse)
        for group in answer.groups:
            for member in group.members if group.protocol_type == _CONSUMER else ():
                yield group.group_id, _topics_of(bytes(member.member_assignment))
    modern = [each.group_id for each in listed if each.group_type == _CONSUMER]
    if modern:
        request = ConsumerGroupDescribeRequest(group_ids=modern)
        for described in connection.call(request, ConsumerGroupDescribeResponse).groups:
            for each in described.members:
                yield described.group_id, {found.topic_name for found in each.assignment.topic_partitions}


def _topics_of(assignment: bytes) -> set[str]:
    """A consumer's assignment, its version in front."""
    if len(assignment) < 2:
        return set()
    version = int.from_bytes(assignment[:2], "big", signed=True)
    newest = ConsumerProtocolAssignment.MAX_VERSION
    found, _ = ConsumerProtocolAssignment.decode(min(version, newest), assignment, 2)
    return {each.topic for each in found.assigned_partitions}
