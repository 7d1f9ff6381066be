"""Penstock answers the group requests exactly as Apache Kafka does."""

from pathlib import Path

import pytest
from group_conversation import Conversation, converse, fetch_group, fetch_many, heartbeat

from kafka_node import KafkaNode
from penstock.protocol import messages as m
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from waiting import wait_until

WHAT_KAFKA_SAYS = Path(__file__).with_name("group_conversation.txt")


def test_penstock_says_what_kafka_says() -> None:
    with Cluster() as cluster:
        assert converse(cluster.bootstrap_servers) == WHAT_KAFKA_SAYS.read_text()


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_kafka_says_so_and_penstock_takes_its_groups_over(kafka_libs: Path, tmp_path: Path) -> None:
    with KafkaNode(kafka_libs, tmp_path) as kafka:
        assert converse(kafka.bootstrap_servers) == WHAT_KAFKA_SAYS.read_text()
    with Cluster(data_dir=kafka.data_dir) as cluster:
        assert_groups_are_there(cluster.bootstrap_servers)


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_kafka_takes_penstocks_groups_over(kafka_libs: Path, tmp_path: Path) -> None:
    kafka = KafkaNode(kafka_libs, tmp_path)
    with Cluster(data_dir=kafka.data_dir) as cluster:
        converse(cluster.bootstrap_servers)
    with kafka:
        assert_groups_are_there(kafka.bootstrap_servers)


def assert_groups_are_there(bootstrap: str) -> None:
    """Check the final state of the conversation: a stable group with an active member, and offsets."""
    talk = Conversation(bootstrap)
    try:
        wire = talk.wire("x")
        request = fetch_many(fetch_group("g", {"t1": [0]}), fetch_group("", {"t1": [0]}))

        def committed_offsets() -> dict[str, int]:
            """The offsets by group; none while the node loads the groups."""
            fetched = wire.ask(request, 8).groups
            if any(group.error_code for group in fetched):
                return {}
            return {group.group_id: group.topics[0].partitions[0].committed_offset for group in fetched}

        wait_until(committed_offsets)
        offsets = committed_offsets()
        assert offsets == {"g": 2, "": 3}
        (described,) = wire.ask(m.DescribeGroupsRequest(groups=["g"]), 6).groups
        assert (described.group_state, described.protocol_data) == ("Stable", "range")
        (member,) = described.members
        assert (member.client_id, member.member_assignment) == ("a", b"all")
        beat = wire.ask(heartbeat("g", member.member_id, 3), 4)
        assert ErrorCode(beat.error_code) is ErrorCode.NONE
    finally:
        talk.close()
