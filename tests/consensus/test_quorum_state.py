"""The quorum-state file, in both of Kafka's versions."""

import pytest

from penstock.consensus.quorum_state import ElectionState, QuorumStateError

STATIC = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)
DYNAMIC = (
    '{"leaderId":-1,"leaderEpoch":3,"votedId":1,"votedDirectoryId":"AQEBAQEBAQEBAQEBAQEBAQ","data_version":1}'
)


@pytest.mark.parametrize(
    ("text", "version", "state"),
    [
        (STATIC, 0, ElectionState(epoch=3, leader_id=1, voters=(1,))),
        (DYNAMIC, 1, ElectionState(epoch=3, voted_id=1, voted_directory_id=bytes([1]) * 16)),
    ],
)
def test_the_quorum_state_file(text: str, version: int, state: ElectionState) -> None:
    assert ElectionState.from_json(text) == state
    assert state.to_json(version) == text


@pytest.mark.parametrize("text", ["", "{}", "[]", STATIC.replace('data_version":0', 'data_version":2')])
def test_a_file_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(QuorumStateError):
        ElectionState.from_json(text)
