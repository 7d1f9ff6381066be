"""The output of `penstock cluster status`."""

import pytest

from penstock.cli.cluster_status import LISTED, show_status
from penstock.client.admin.quorum import QuorumDescription
from penstock.client.admin.replicas import PartitionReplicas
from penstock.client.connections.metadata import TopicPartition
from penstock.operations.health import Health


def test_topics_of_users_come_before_the_clusters_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Of `__consumer_offsets` alone there are more partitions than the table shows."""
    lost = PartitionReplicas(-1, 0, (1,), (1,), None, (1,))
    partitions = [TopicPartition("__consumer_offsets", number) for number in range(50)]
    partitions.append(TopicPartition("orders", 0))
    quorum = QuorumDescription(1, 1, 0, [], [])
    show_status(Health("id", [], quorum, dict.fromkeys(partitions, lost), {}, {}, offline=sorted(partitions)))
    table = capsys.readouterr().out.partition("OFFLINE")[2].splitlines()
    assert [row.split()[0] for row in table[1:3]] == ["orders-0", "__consumer_offsets-0"]
    assert len(table) == LISTED + 2
    assert table[-1] == "… and 31 more; --json lists all"
