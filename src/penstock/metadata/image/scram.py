"""The SCRAM credentials of users, by mechanism and user (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.protocol.messages import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from penstock.security.scram import ScramCredential, ScramMechanism


class ScramImage:
    """All credentials. Those of a mechanism that only a newer release knows are kept, but have no lookup."""

    def __init__(self) -> None:
        self._records: dict[tuple[int, str], UserScramCredentialRecord] = {}

    def copy(self) -> ScramImage:
        twin = ScramImage()
        twin._records = self._records.copy()
        return twin

    def put(self, record: UserScramCredentialRecord) -> None:
        self._records[record.mechanism, record.name] = record

    def remove(self, record: RemoveUserScramCredentialRecord) -> None:
        self._records.pop((record.mechanism, record.name), None)

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """The keys that check a login of the user by this mechanism; None if the user cannot log in by it."""
        record = self._records.get((mechanism, user))
        if record is None:
            return None
        return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)

    def users(self) -> list[str]:
        """The users with a credential for a known mechanism, sorted."""
        return sorted({user for number, user in self._records if ScramMechanism.of_number(number)})

    def secret(self) -> bytes | None:
        """Bytes that only the cluster knows, the same on all nodes and seldom others; None without users."""
        first = min(self._records, default=None)
        return None if first is None else self._records[first].server_key

    def records(self) -> Iterator[UserScramCredentialRecord]:
        return iter(self._records.values())


def credential_record(
    user: str, mechanism: ScramMechanism, credential: ScramCredential
) -> UserScramCredentialRecord:
    """The record that gives a user a credential, instead of the one of this mechanism if there is one."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=int(mechanism),
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
