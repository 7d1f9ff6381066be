"""AlterUserScramCredentials: set and delete users' SCRAM credentials in the metadata log (KIP-554).

A client sends the salted password. The controller derives the keys that servers keep, from which nobody can
log in.
"""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar

from penstock.metadata.controller.features import SCRAM_LEVEL
from penstock.metadata.controller.state import ControllerState, Decision, Refusal
from penstock.metadata.image.scram import credential_record
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    Message,
    RemoveUserScramCredentialRecord,
)
from penstock.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, credential

Deletion: TypeAlias = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion: TypeAlias = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Result: TypeAlias = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult

V = TypeVar("V")

DUPLICATE: Final = "A user credential cannot be altered twice in the same request"


def alter_scram_credentials(
    state: ControllerState, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    """Alter credentials, each of which succeeds or fails separately, at most one of a user in a request.

    The results are deletions, then upsertions, then errors.
    """
    deletions: dict[str, Deletion] = {}
    upsertions: dict[str, Upsertion] = {}
    errors: dict[str, Refusal] = {}
    for deletion in request.deletions:
        user = deletion.name
        if user not in errors:
            try:
                _refuse_second(user, deletions)
                _check_deletion(state, deletion)
                deletions[user] = deletion
            except Refusal as refusal:
                errors[user] = refusal
    for upsertion in request.upsertions:
        user = upsertion.name
        if user not in errors:
            try:
                _refuse_second(user, deletions)
                _refuse_second(user, upsertions)
                _check_upsertion(state, upsertion)
                upsertions[user] = upsertion
            except Refusal as refusal:
                errors[user] = refusal
    records: list[Message] = [
        RemoveUserScramCredentialRecord(name=user, mechanism=deletion.mechanism)
        for user, deletion in deletions.items()
    ]
    records += [_record(upsertion) for upsertion in upsertions.values()]
    results = [_result(user) for user in (*deletions, *upsertions)]
    results += [_result(user, refusal) for user, refusal in errors.items()]
    return Decision(records, AlterUserScramCredentialsResponse(results=results))


def _refuse_second(user: str, altered: dict[str, V]) -> None:
    """Raise Refusal if the user is altered already, and withdraw the first alteration too."""
    if altered.pop(user, None) is not None:
        raise Refusal(ErrorCode.DUPLICATE_RESOURCE, DUPLICATE)


def _check_deletion(state: ControllerState, deletion: Deletion) -> None:
    mechanism = _checked_mechanism(state, deletion)
    if state.image.scram.credential(mechanism, deletion.name) is None:
        raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


def _check_upsertion(state: ControllerState, upsertion: Upsertion) -> None:
    _checked_mechanism(state, upsertion)
    if upsertion.iterations < MIN_ITERATIONS:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not upsertion.salted_password:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")


def _checked_mechanism(state: ControllerState, alteration: Deletion | Upsertion) -> ScramMechanism:
    """The mechanism of an alteration whose user has a name. Raises Refusal."""
    if state.image.metadata_version < SCRAM_LEVEL:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not alteration.name:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = ScramMechanism.of_number(alteration.mechanism)
    if mechanism is None:
        raise Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return mechanism


def _record(upsertion: Upsertion) -> Message:
    mechanism = ScramMechanism(upsertion.mechanism)
    computed = credential(mechanism, upsertion.salt, upsertion.salted_password, upsertion.iterations)
    return credential_record(upsertion.name, mechanism, computed)


def _result(user: str, refusal: Refusal | None = None) -> Result:
    if refusal is None:
        return AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(
            user=user, error_message=None
        )
    return AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(
        user=user, error_code=refusal.code, error_message=refusal.message
    )
