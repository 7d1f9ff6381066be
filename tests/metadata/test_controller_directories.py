"""Brokers report the directories of their replicas."""

from controller_bench import ControllerBench, directory_of
from invariants import check_image

from penstock.metadata.controller.directories import assign_replicas_to_dirs
from penstock.metadata.controller.reassignment import alter_partition_reassignments
from penstock.metadata.image import NO_LEADER
from penstock.protocol.messages import AlterPartitionReassignmentsRequest, AssignReplicasToDirsRequest

LOST = directory_of(5, 7)


def assign(bench: ControllerBench, broker_id: int, directory: bytes) -> None:
    request = AssignReplicasToDirsRequest
    asked = request.TopicData(
        topic_id=bench.image.topics.by_name["t"].topic_id,
        partitions=[request.PartitionData(partition_index=0)],
    )
    epoch = bench.image.brokers[broker_id].epoch
    told = [request.DirectoryData(id=directory, topics=[asked])]
    answer = bench.do(
        assign_replicas_to_dirs, request(broker_id=broker_id, broker_epoch=epoch, directories=told)
    )
    assert [each.error_code for each in answer.directories[0].topics[0].partitions] == [0]


def test_a_replica_in_a_lost_directory_leads_no_more() -> None:
    bench = ControllerBench(brokers=(2, 5))
    bench.place("t", [5, 2])
    assign(bench, 5, LOST)
    partition = bench.partition()
    assert (partition.leader, partition.isr, partition.directory(5)) == (2, (2,), LOST)


def test_a_lost_directory_may_complete_a_reassignment() -> None:
    """The former leader is no longer a replica and is not elected again."""
    bench = ControllerBench(brokers=(2, 5), elr=False)
    bench.place("t", [2], unclean_leader_election_enable="true")
    bench.kill(2, 5)
    move = AlterPartitionReassignmentsRequest
    to_5 = move.ReassignablePartition(partition_index=0, replicas=[5])
    bench.do(
        alter_partition_reassignments,
        move(topics=[move.ReassignableTopic(name="t", partitions=[to_5])]),
    )
    bench.heartbeat(5)
    bench.heartbeat(2)
    partition = bench.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((5, 2), (5,), 5)
    assign(bench, 5, LOST)
    partition = bench.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((5,), (5,), NO_LEADER)
    check_image(bench.image, elr=False)
