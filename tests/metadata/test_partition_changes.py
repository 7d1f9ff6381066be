"""Leaders, in-sync and eligible replicas of one partition, as scripts of events and states.

A line `DO what` is an event; a line `IS leader=… isr=… elr=… …` gives the expected values of the fields that
it names. `-` means none.
"""

import pytest
from controller_bench import ControllerBench

from penstock.metadata.controller.alter_partition import alter_partition
from penstock.metadata.controller.elections import balance_leaders, elect_leaders, elect_unclean_leaders
from penstock.metadata.controller.reassignment import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from penstock.metadata.controller.registration import unregister_broker
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
)

SCRIPTS = {
    "a leader that dies is followed by the next in sync": """
        IS leader=1 isr=1,2,3 epoch=0
        DO kill 1
        IS leader=2 isr=2,3 epoch=1
        DO start 1
        IS leader=2 isr=2,3 epoch=1
        DO isr 2,3,1
        IS leader=2 isr=2,3,1 epoch=1
        DO balance
        IS leader=1 isr=2,3,1 epoch=2
    """,
    "a follower that dies costs no epoch": """
        DO kill 3
        IS leader=1 isr=1,2 epoch=0
    """,
    "without eligible replicas the last in sync is waited for": """
        DO kill 1
        DO kill 2
        DO kill 3
        IS leader=- isr=3
        DO start 1
        DO unclean
        IS leader=- isr=3
        DO start 3
        IS leader=3 isr=3 recovering=no
    """,
    "an unclean election is a choice of the topic": """
        WITH unclean
        DO isr 1
        DO kill 1
        IS leader=2 isr=2 recovering=yes
    """,
    "an unclean election may have to wait for somebody": """
        WITH unclean
        DO kill 2
        DO kill 3
        DO kill 1
        IS leader=- isr=1
        DO start 3
        IS leader=3 isr=3 recovering=yes
    """,
    "an operator may elect uncleanly": """
        DO isr 1
        DO kill 1
        IS leader=- isr=1
        DO elect unclean
        IS leader=2 isr=2 recovering=yes
        DO recovered
        IS leader=2 isr=2 recovering=no
    """,
    "below the minimum who leaves the ISR stays eligible": """
        WITH elr min=2
        DO kill 3
        IS leader=1 isr=1,2 elr=-
        DO kill 2
        IS leader=1 isr=1 elr=2
        DO kill 1
        IS leader=- isr=- elr=1,2 last=1
        DO start 2
        IS leader=2 isr=2 elr=1 last=- recovering=no
        DO start 1
        DO isr 2,1
        IS leader=2 isr=2,1 elr=-
    """,
    "with none eligible who led last is waited for": """
        WITH elr min=1
        DO kill 3
        DO kill 2
        IS leader=1 isr=1 elr=-
        DO kill 1
        IS leader=- isr=- elr=1 last=1
        DO crash 1
        IS leader=1 isr=1 elr=- last=- recovering=yes
    """,
    "who crashed is not eligible": """
        WITH elr min=2
        DO kill 3
        DO kill 2
        IS leader=1 isr=1 elr=2
        DO crash 2
        IS leader=1 isr=1 elr=-
    """,
    "a whole ISR that crashes leaves the eligible": """
        WITH elr min=3
        DO kill 3
        IS leader=1 isr=1,2 elr=3
        DO kill 2
        DO kill 1
        IS leader=- isr=- elr=1,2,3
        DO start 3
        IS leader=3 isr=3 elr=1,2
    """,
    "an eligible replica is preferred to an unclean election": """
        WITH elr unclean min=2
        DO kill 3
        DO kill 2
        DO kill 1
        IS leader=- isr=- elr=1,2
        DO crash 3
        IS leader=3 isr=3 elr=- recovering=yes
    """,
    "a broker that stops leaves the ISR, and is eligible below the minimum": """
        WITH elr min=3
        DO stop 1
        IS leader=2 isr=2,3 elr=1
    """,
    "unregistering ends eligibility of nobody else": """
        WITH elr min=2
        DO kill 3
        DO kill 2
        IS leader=1 isr=1 elr=2
        DO unregister 3
        IS leader=1 isr=1 elr=2
    """,
    "a move adds, waits for who was added, and then removes": """
        DO move 3,4
        IS replicas=3,4,1,2 isr=1,2,3 adding=4 removing=1,2 leader=1 epoch=0
        DO isr 1,2,3,4
        IS replicas=3,4 isr=3,4 adding=- removing=- leader=3 epoch=1
    """,
    "a move that only reorders is done at once": """
        DO move 3,2,1
        IS replicas=3,2,1 isr=1,2,3 adding=- removing=- leader=1 epoch=0
        DO balance
        IS leader=3
    """,
    "fewer replicas need all that stay in sync": """
        DO kill 3
        DO move 3
        IS replicas=3,1,2 removing=1,2 isr=1,2
        DO start 3
        DO isr 1,2,3
        IS replicas=3 removing=- isr=3 leader=3 epoch=1
    """,
    "a move that is taken back": """
        DO move 4,5
        DO isr 1,2,3,4
        IS replicas=4,5,1,2,3 isr=1,2,3,4
        DO cancel
        IS replicas=1,2,3 isr=1,2,3 adding=- removing=- leader=1 epoch=1
    """,
    "a move that another replaces by one that adds nothing": """
        DO move 4,1
        IS replicas=4,1,2,3 adding=4 removing=2,3
        DO move 1
        IS replicas=1 isr=1 adding=- removing=- leader=1
    """,
    "a move that is changed on the way": """
        DO move 4,5
        DO move 4,6
        IS replicas=4,6,1,2,3,5 adding=6 removing=1,2,3,5
        DO isr 1,2,3,4,6
        IS replicas=4,6 isr=4,6 leader=4
    """,
}

ELECTIONS = {"preferred": 0, "unclean": 1}


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str) -> None:
    lines = [line.split() for line in SCRIPTS[name].strip().splitlines()]
    options = {word for line in lines if line[0] == "WITH" for word in line[1:]}
    configs = {
        "min_insync_replicas": next((o.removeprefix("min=") for o in options if o.startswith("min=")), "1"),
        "unclean_leader_election_enable": str("unclean" in options).lower(),
    }
    bench = ControllerBench(brokers=range(1, 7), elr="elr" in options)
    bench.place("t", [1, 2, 3], **configs)
    for number, line in enumerate(lines):
        if line[0] == "DO":
            happen(bench, *line[1:])
        elif line[0] == "IS":
            found = {field.split("=")[0]: look(bench, field.split("=")[0]) for field in line[1:]}
            assert found == dict(field.split("=") for field in line[1:]), f"line {number + 1}: {line}"


def happen(bench: ControllerBench, what: str, argument: str = "") -> None:
    match what:
        case "kill":
            bench.kill(int(argument))
        case "start":
            if bench.image.brokers[int(argument)].fenced:
                bench.heartbeat(int(argument))
        case "crash":
            bench.now_ms += 1
            bench.start(int(argument))
        case "stop":
            bench.stop(int(argument))
        case "unregister":
            bench.do(unregister_broker, UnregisterBrokerRequest(broker_id=int(argument)))
        case "isr" | "recovered":
            isr = numbers(argument) if argument else list(bench.partition().isr)
            response = bench.do(alter_partition, bench.isr_request(isr), 3)
            code = response.topics[0].partitions[0].error_code
            assert code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED), ErrorCode(code).name
        case "balance":
            bench.do(balance_leaders)
        case "unclean":
            bench.do(elect_unclean_leaders)
        case "elect":
            asked = ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])
            request = ElectLeadersRequest(election_type=ELECTIONS[argument], topic_partitions=[asked])
            results = bench.do(elect_leaders, request).replica_election_results
            assert results[0].partition_result[0].error_code == 0
        case "move" | "cancel":
            code, message = move(bench, numbers(argument) if argument else None)
            assert code == 0, message
        case _:
            raise AssertionError(what)


def look(bench: ControllerBench, field: str) -> str:
    partition = bench.partition()
    match field:
        case "leader":
            return "-" if partition.leader < 0 else str(partition.leader)
        case "epoch":
            return str(partition.leader_epoch)
        case "recovering":
            return "yes" if partition.leader_recovery_state else "no"
    sets = {
        "isr": partition.isr,
        "elr": partition.elr,
        "last": partition.last_known_elr,
        "replicas": partition.replicas,
        "adding": partition.adding_replicas,
        "removing": partition.removing_replicas,
    }
    return ",".join(map(str, sets[field])) or "-"


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def move(
    bench: ControllerBench, replicas: list[int] | None, topic: str = "t", may_change_factor: bool = True
) -> tuple[int, str | None]:
    asked = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic, partitions=[asked])],
        allow_replication_factor_change=may_change_factor,
    )
    answer = bench.do(alter_partition_reassignments, request).responses[0].partitions[0]
    return answer.error_code, answer.error_message


# Errors of AlterPartition


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ([1, 2], {"leader_epoch": 1}, "NOT_CONTROLLER"),
        ([1, 2], {"partition_epoch": 7}, "NOT_CONTROLLER"),
        ([1, 2], {"leader_epoch": -1}, "FENCED_LEADER_EPOCH"),
        ([1, 2], {"partition_epoch": -1}, "INVALID_UPDATE_VERSION"),
        ([1, 2], {"leader": 2}, "INVALID_REQUEST"),
        ([2, 3], {}, "INVALID_REQUEST"),
        ([1, 4], {}, "INVALID_REQUEST"),
        ([1, 1], {}, "INVALID_REQUEST"),
        ([1], {"leader_recovery_state": 1}, "INVALID_REQUEST"),
        ([1], {"leader_recovery_state": 5}, "INVALID_REQUEST"),
        ([1, 2], {"partition_index": 9}, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_isr_changes_that_are_refused(isr: list[int], fields: dict[str, int], code: str) -> None:
    bench = ControllerBench(brokers=range(1, 7))
    bench.place("t", [1, 2, 3])
    response = bench.do(alter_partition, bench.isr_request(isr, **fields), 3)
    assert response.topics[0].partitions[0].error_code == ErrorCode[code]
    assert bench.partition().isr == (1, 2, 3)


def test_a_replica_that_started_anew_is_not_in_sync_by_what_it_was() -> None:
    """KIP-903: the leader saw the earlier incarnation catch up."""
    bench = ControllerBench(brokers=(1, 2))
    bench.place("t", [1, 2])
    bench.kill(2)
    request = bench.isr_request([1, 2])
    bench.start(2)
    response = bench.do(alter_partition, request, 3)
    assert response.topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    bench.do(alter_partition, bench.isr_request([1, 2]), 3)
    assert bench.partition().isr == (1, 2)


def test_no_fenced_or_stopping_replica_comes_into_sync() -> None:
    bench = ControllerBench(brokers=(1, 2, 3))
    bench.place("t", [1, 2])
    bench.place("u", [2, 3])
    bench.kill(2)
    refused = bench.do(alter_partition, bench.isr_request([1, 2]), 3)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA


def test_older_versions_name_the_isr_without_epochs() -> None:
    bench = ControllerBench(brokers=(1, 2))
    bench.place("t", [1, 2])
    request = bench.isr_request([1])
    request.topics[0].partitions[0].new_isr = [1]
    bench.do(alter_partition, request, 2)
    assert bench.partition().isr == (1,)


def test_before_3_6_a_shrunk_isr_costs_an_epoch() -> None:
    """KAFKA-15021"""
    for metadata_version, epoch in ((11, 1), (12, 0)):
        bench = ControllerBench(brokers=(1, 2), metadata_version=metadata_version)
        bench.place("t", [1, 2])
        bench.do(alter_partition, bench.isr_request([1]), 3)
        assert bench.partition().leader_epoch == epoch


# Errors and results of reassignments


def test_moves_that_are_refused() -> None:
    bench = ControllerBench(brokers=(1, 2, 3))
    bench.place("t", [1, 2])
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert move(bench, [1], topic="no") == (unknown, "Unable to find a topic named no.")
    assert move(bench, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    assert move(bench, [])[0] == invalid
    assert move(bench, [1, 9])[0] == invalid
    assert move(bench, [1], may_change_factor=False) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 2 to 1",
    )
    move(bench, [2, 3])
    assert move(bench, [1], may_change_factor=False)[0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(bench, [1, 3], may_change_factor=False)[0] == ErrorCode.NONE


def test_a_move_is_not_taken_back_uncleanly() -> None:
    bench = ControllerBench(brokers=(1, 2, 3))
    bench.place("t", [1])
    move(bench, [2, 3])
    bench.do(alter_partition, bench.isr_request([1, 2]), 3)
    bench.kill(1)
    assert bench.partition().isr == (2,)
    code, message = move(bench, None)
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert "unclean leader election" in message


def test_moves_under_way_are_listed() -> None:
    bench = ControllerBench(brokers=(1, 2, 3))
    bench.place("t", [1, 2])
    bench.place("u", [1, 2])
    request = ListPartitionReassignmentsRequest(topics=None)
    assert bench.do(list_partition_reassignments, request).topics == []
    move(bench, [3, 1])
    (topic,) = bench.do(list_partition_reassignments, request).topics
    (partition,) = topic.partitions
    assert (topic.name, partition.replicas) == ("t", [3, 1, 2])
    assert (partition.adding_replicas, partition.removing_replicas) == ([3], [2])
    asked = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    named = [asked(name="u", partition_indexes=[0]), asked(name="no", partition_indexes=[0])]
    assert (
        bench.do(list_partition_reassignments, ListPartitionReassignmentsRequest(topics=named)).topics == []
    )


# Requested elections


def test_elections_that_are_refused() -> None:
    bench = ControllerBench(brokers=(1, 2))
    bench.place("t", [1, 2])
    bench.place("u", [1])
    bench.kill(1)

    def election(kind: int, topic: str, partition: int = 0) -> int:
        asked = ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])
        request = ElectLeadersRequest(election_type=kind, topic_partitions=[asked])
        return bench.do(elect_leaders, request).replica_election_results[0].partition_result[0].error_code

    assert election(0, "t") == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert election(1, "t") == ErrorCode.ELECTION_NOT_NEEDED
    assert election(1, "u") == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert election(0, "no") == election(0, "t", 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert election(9, "t") == ErrorCode.INVALID_REQUEST


def test_an_election_of_everything_names_only_what_changed_or_failed() -> None:
    bench = ControllerBench(brokers=(1, 2))
    bench.place("t", [1, 2], [2, 1])
    bench.kill(1)
    bench.heartbeat(1)
    request = bench.isr_request([2, 1])
    bench.do(alter_partition, request, 3)
    response = bench.do(elect_leaders, ElectLeadersRequest(election_type=0, topic_partitions=None))
    (result,) = response.replica_election_results
    assert [(p.partition_id, p.error_code) for p in result.partition_result] == [(0, 0)]
    assert bench.partition().leader == 1
