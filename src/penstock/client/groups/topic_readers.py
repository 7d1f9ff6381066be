"""Find the current readers of topics: the members of consumer groups, by their assignments."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial

from penstock.client.connections.cluster import Cluster
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
    """By topic: the number of group members that read a part of it, and the number of their groups.

    Raises ClientError.
    """
    members: Counter[str] = Counter()
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for node_id in cluster.refresh([]).brokers:
        for group_id, topics in cluster.retry(partial(_assigned, cluster, node_id)):
            members.update(topics)
            for topic in topics:
                groups[topic].add(group_id)
    return {topic: (number, len(groups[topic])) for topic, number in members.items()}


def _assigned(cluster: Cluster, node_id: int) -> list[tuple[str, set[str]]]:
    """The groups that a broker coordinates, with the topics of each of their members."""
    connection = cluster.connection(node_id)
    listed = connection.call(ListGroupsRequest(), ListGroupsResponse).groups
    found: list[tuple[str, set[str]]] = []
    classic = [each.group_id for each in listed if each.group_type in ("", _CLASSIC)]
    if classic:
        answer = connection.call(DescribeGroupsRequest(groups=classic), DescribeGroupsResponse)
        for group in answer.groups:
            members = group.members if group.protocol_type == _CONSUMER else ()
            found += [(group.group_id, _topics_of(bytes(each.member_assignment))) for each in members]
    modern = [each.group_id for each in listed if each.group_type == _CONSUMER]
    if modern:
        request = ConsumerGroupDescribeRequest(group_ids=modern)
        for described in connection.call(request, ConsumerGroupDescribeResponse).groups:
            for member in described.members:
                topics = {each.topic_name for each in member.assignment.topic_partitions}
                found.append((described.group_id, topics))
    return found


def _topics_of(assignment: bytes) -> set[str]:
    """The topics of a consumer's assignment, which begins with its version."""
    if len(assignment) < 2:
        return set()
    version = int.from_bytes(assignment[:2], "big", signed=True)
    newest = ConsumerProtocolAssignment.MAX_VERSION
    found, _ = ConsumerProtocolAssignment.decode(min(version, newest), assignment, 2)
    return {each.topic for each in found.assigned_partitions}
