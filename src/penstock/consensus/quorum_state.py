"""The state that a voter must keep across restarts, in the format of Kafka's ``quorum-state`` file.

The file is JSON. Version 0 belongs to static voters (``controller.quorum.voters``, kraft.version 0) and
lists them. Version 1 (KIP-853, kraft.version 1) leaves them to the log and names the directory voted for.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from penstock.consensus.voters import ReplicaKey
from penstock.protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text

FILE_NAME: Final = "quorum-state"

_NOBODY: Final = -1


class QuorumStateError(ValueError):
    """A quorum-state file cannot be parsed. Guessing its content could elect two leaders in one epoch."""


class ElectionState(NamedTuple):
    """The newest epoch that this voter has seen, and the leader and the vote in it."""

    epoch: int
    leader_id: int | None = None
    voted_id: int | None = None
    voted_directory_id: bytes = ZERO_UUID
    voters: tuple[int, ...] = ()

    @property
    def voted_key(self) -> ReplicaKey | None:
        return None if self.voted_id is None else ReplicaKey(self.voted_id, self.voted_directory_id)

    def to_json(self, version: int) -> str:
        leader_id = _NOBODY if self.leader_id is None else self.leader_id
        voted_id = _NOBODY if self.voted_id is None else self.voted_id
        if version == 0:
            data: dict[str, object] = {
                "clusterId": "",
                "leaderId": leader_id,
                "leaderEpoch": self.epoch,
                "votedId": voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in self.voters],
            }
        else:
            data = {
                "leaderId": leader_id,
                "leaderEpoch": self.epoch,
                "votedId": voted_id,
                "votedDirectoryId": uuid_to_text(self.voted_directory_id),
            }
        return json.dumps({**data, "data_version": version}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ElectionState:
        """Parse a file of either version. Raises QuorumStateError."""
        try:
            data = json.loads(text)
            version = data["data_version"]
            if version not in (0, 1):
                raise QuorumStateError(
                    f"quorum-state of version {version}: only versions 0 and 1 are supported"
                )
            leader_id, voted_id = data["leaderId"], data["votedId"]
            directory_id = data.get("votedDirectoryId")
            return cls(
                epoch=data["leaderEpoch"],
                leader_id=None if leader_id == _NOBODY else leader_id,
                voted_id=None if voted_id == _NOBODY else voted_id,
                voted_directory_id=uuid_from_text(directory_id) if directory_id else ZERO_UUID,
                voters=tuple(voter["voterId"] for voter in data.get("currentVoters") or ()),
            )
        except QuorumStateError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise QuorumStateError(f"not a quorum-state file: {error}") from error
