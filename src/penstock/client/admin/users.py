"""Set, find and delete the SCRAM credentials of users (KIP-554). Any broker takes the requests."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from penstock.client.connections.cluster import Cluster
from penstock.client.errors import error_from
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from penstock.security.scram import MIN_ITERATIONS, SALT_BYTES, ScramMechanism, salted_password


class UserCredential(NamedTuple):
    """A user who can log in by a mechanism. Servers never give away more of the password."""

    user: str
    mechanism: ScramMechanism
    iterations: int


def set_password(
    cluster: Cluster,
    user: str,
    password: str,
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
    iterations: int = MIN_ITERATIONS,
) -> None:
    """Set a user's password for one mechanism, or change it. The password itself is not sent.

    Raises ServerError; ValueError if ``iterations`` is not positive.
    """
    salt = secrets.token_bytes(SALT_BYTES)
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(mechanism, password, salt, iterations),
    )
    _alter(
        cluster, AlterUserScramCredentialsRequest(upsertions=[upsertion]), f"setting the password of {user}"
    )


def delete_password(cluster: Cluster, user: str, mechanism: ScramMechanism) -> None:
    """Delete a user's credential for one mechanism. Raises ServerError, also if there is none."""
    deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=user, mechanism=mechanism)
    _alter(cluster, AlterUserScramCredentialsRequest(deletions=[deletion]), f"deleting {user}")


def describe_users(cluster: Cluster, user: str | None = None) -> list[UserCredential]:
    """The credentials of one user, or of all, sorted; none if the user does not exist. Raises ServerError."""
    asked = None if user is None else [DescribeUserScramCredentialsRequest.UserName(name=user)]
    request = DescribeUserScramCredentialsRequest(users=asked)

    def describe() -> list[UserCredential]:
        response = cluster.call_any(request, DescribeUserScramCredentialsResponse)
        if response.error_code:
            raise error_from(response.error_code, "reading users", response.error_message)
        found: list[UserCredential] = []
        for result in response.results:
            if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            if result.error_code:
                raise error_from(result.error_code, f"reading user {result.user}", result.error_message)
            found += [
                UserCredential(result.user, mechanism, info.iterations)
                for info in result.credential_infos
                if (mechanism := ScramMechanism.of_number(info.mechanism)) is not None
            ]
        return sorted(found)

    return cluster.retry(describe)


def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest, where: str) -> None:
    def alter() -> None:
        for result in cluster.call_any(request, AlterUserScramCredentialsResponse).results:
            if result.error_code:
                raise error_from(result.error_code, where, result.error_message)

    cluster.retry(alter)
