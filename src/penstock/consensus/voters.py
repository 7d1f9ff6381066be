"""The voters of a quorum: replicas by id and directory, with their endpoints, and the set of them (KIP-853).

A voter of a dynamic quorum is identified by its node id and the id of its metadata directory, so a node that
lost its disk is a different voter. Static voters (``controller.quorum.voters``) have no directory id: the
zero id means "unknown" and matches any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from penstock.protocol.messages import VotersRecord
from penstock.protocol.uuids import ZERO_UUID, uuid_to_text


class ReplicaKey(NamedTuple):
    """The key of a replica of the metadata log; ``directory_id`` is zero if it is unknown."""

    id: int
    directory_id: bytes = ZERO_UUID

    def __str__(self) -> str:
        return (
            f"{self.id}-{uuid_to_text(self.directory_id)}" if self.directory_id != ZERO_UUID else str(self.id)
        )


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


Endpoints: TypeAlias = Mapping[str, Address]
"""Addresses by listener name."""


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter, and the versions of the quorum's protocol (``kraft.version``) that it supports."""

    key: ReplicaKey
    endpoints: Endpoints = field(default_factory=dict)
    min_kraft_version: int = 0
    max_kraft_version: int = 0

    def is_voter(self, key: ReplicaKey) -> bool:
        if self.key.id != key.id:
            return False
        return self.key.directory_id in (ZERO_UUID, key.directory_id)


class VoterSet:
    """An immutable set of voters by id; a change makes a new set."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters = {voter.key.id: voter for voter in sorted(voters, key=lambda voter: voter.key)}

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(voter.key) for voter in self)})"

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._voters)

    @property
    def keys(self) -> list[ReplicaKey]:
        return [voter.key for voter in self]

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self._voters.get(key.id)
        return voter is not None and voter.is_voter(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self._voters) == 1 and self.is_voter(key)

    def get(self, voter_id: int) -> Voter | None:
        return self._voters.get(voter_id)

    def endpoints(self, voter_id: int) -> Endpoints:
        """The endpoints of a voter; empty if there is no voter with this id."""
        voter = self._voters.get(voter_id)
        return {} if voter is None else voter.endpoints

    def needs_update(self, voter: Voter) -> bool:
        """Whether the voter is in the set, but with other endpoints or versions."""
        known = self._voters.get(voter.key.id)
        return known is not None and known.is_voter(voter.key) and known != voter

    def supports(self, kraft_version: int) -> bool:
        return all(voter.min_kraft_version <= kraft_version <= voter.max_kraft_version for voter in self)

    # Changes, which return the new set, or None if the change is impossible

    def added(self, voter: Voter) -> VoterSet | None:
        return None if voter.key.id in self._voters else VoterSet((*self, voter))

    def removed(self, key: ReplicaKey) -> VoterSet | None:
        """The set without a voter, whose directory must match; the last voter cannot be removed."""
        known = self._voters.get(key.id)
        if known is None or known.key != key or len(self) == 1:
            return None
        return VoterSet(voter for voter in self if voter.key.id != key.id)

    def updated(self, voter: Voter, *, any_directory: bool = False) -> VoterSet | None:
        """The set with new endpoints and versions of a voter; with ``any_directory``, a new directory too."""
        known = self._voters.get(voter.key.id)
        if known is None or not (any_directory or known.is_voter(voter.key)):
            return None
        return VoterSet(voter if other is known else other for other in self)

    # Records

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                VotersRecord.Voter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[
                        VotersRecord.Endpoint(name=name, host=address.host, port=address.port)
                        for name, address in voter.endpoints.items()
                    ],
                    kraft_version_feature=VotersRecord.KRaftVersionFeature(
                        min_supported_version=voter.min_kraft_version,
                        max_supported_version=voter.max_kraft_version,
                    ),
                )
                for voter in self
            ],
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> VoterSet:
        return cls(
            Voter(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                {endpoint.name: Address(endpoint.host, endpoint.port) for endpoint in voter.endpoints},
                voter.kraft_version_feature.min_supported_version,
                voter.kraft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )
