"""Elections of leaders that a request or a timer starts; most others follow from a broker's start or stop.

A preferred election returns a partition to its first replica (KIP-460). An unclean election gives a partition
without a leader any available replica. It is started by a request, or by a timer if the topic's
``unclean.leader.election.enable`` allows it.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from penstock.metadata.controller.leadership import find_partitions
from penstock.metadata.controller.partition_change import Election, change_of
from penstock.metadata.controller.state import ControllerState, Decision, Refusal
from penstock.metadata.image import NO_LEADER
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    Message,
    PartitionChangeRecord,
)

PartitionResult: TypeAlias = ElectLeadersResponse.PartitionResult
TopicResult: TypeAlias = ElectLeadersResponse.ReplicaElectionResult

MAX_ELECTIONS_PER_ROUND: Final = 1000
"""Limits the elections that a timer starts in one round; the next round follows at once if more are left."""

_ELECTION_TYPES: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Elect leaders of the partitions in the request, or of all partitions if it names none (null).

    For all partitions, the response leaves out those that need no election, as in Kafka.
    """
    election = _ELECTION_TYPES.get(request.election_type)
    if election is None:
        return Decision([], _unknown_type(request))
    records: list[Message] = []
    response = ElectLeadersResponse()
    if request.topic_partitions is None:
        asked = [(topic.name, list(topic.partitions)) for topic in state.image.topics]
    else:
        asked = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    for topic, partitions in asked:
        results = [_elect(state, topic, partition, election, records) for partition in partitions]
        if request.topic_partitions is None:
            results = [result for result in results if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        response.replica_election_results.append(
            ElectLeadersResponse.ReplicaElectionResult(topic=topic, partition_result=results)
        )
    return Decision(records, response, is_atomic=False)


def _unknown_type(request: ElectLeadersRequest) -> ElectLeadersResponse:
    message = f"Unknown election type {request.election_type}"
    return ElectLeadersResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    ElectLeadersResponse.PartitionResult(
                        partition_id=partition, error_code=ErrorCode.INVALID_REQUEST, error_message=message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _elect(
    state: ControllerState, topic: str, partition_id: int, election: Election, records: list[Message]
) -> PartitionResult:
    try:
        records.append(_election(state, topic, partition_id, election))
    except Refusal as refusal:
        return ElectLeadersResponse.PartitionResult(
            partition_id=partition_id, error_code=refusal.code, error_message=str(refusal)
        )
    return ElectLeadersResponse.PartitionResult(partition_id=partition_id, error_message=None)


def _election(
    state: ControllerState, topic_name: str, partition_id: int, election: Election
) -> PartitionChangeRecord:
    """The record that elects a leader. Raises Refusal if no election is needed or no replica can lead."""
    topic = state.image.topics.by_name.get(topic_name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic_name}")
    partition = topic.partitions.get(partition_id)
    if partition is None:
        raise Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic_name}-{partition_id}"
        )
    is_preferred = election is Election.PREFERRED
    if partition.has_preferred_leader if is_preferred else partition.leader != NO_LEADER:
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    change = change_of(state, topic, partition_id)
    change.election = election
    record = change.record()
    if record is None and is_preferred:
        raise Refusal(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            "The preferred leader was not available.",
        )
    if record is None:
        raise Refusal(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    return record


def balance_leaders(state: ControllerState) -> Decision[bool]:
    """Elect preferred leaders wherever they are in sync; return whether more partitions may be left."""
    records: list[Message] = []
    for topic, partition_id in find_partitions(state, lambda p: not p.has_preferred_leader):
        if len(records) >= MAX_ELECTIONS_PER_ROUND:
            break
        change = change_of(state, topic, partition_id)
        change.election = Election.PREFERRED
        record = change.record()
        if record is not None:
            records.append(record)
    return Decision(records, len(records) >= MAX_ELECTIONS_PER_ROUND, is_atomic=False)


def elect_unclean_leaders(state: ControllerState) -> Decision[bool]:
    """Elect any replica where no replica leads and the topic allows it; return whether more may be left."""
    records: list[Message] = []
    for topic, partition_id in find_partitions(state, lambda p: p.leader == NO_LEADER):
        if len(records) >= MAX_ELECTIONS_PER_ROUND:
            break
        if state.allows_unclean_election(topic.name):
            _elect(state, topic.name, partition_id, Election.UNCLEAN, records)
    return Decision(records, len(records) >= MAX_ELECTIONS_PER_ROUND, is_atomic=False)
