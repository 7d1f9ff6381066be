"""DescribeUserScramCredentials (50): report the SCRAM mechanisms of users, and their iterations (KIP-554).

Version 0. Every node answers from its own metadata, and a request without users means all. Apache Kafka's
controllers list this API but do not serve it; ours answer as brokers do. Needs DESCRIBE on the cluster.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from penstock.security.acls import Operation, ResourceType
from penstock.security.scram import ScramMechanism

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.image.scram import ScramImage


class Parts(Protocol):
    """The parts of the node that this API uses."""

    image: MetadataImage


def handle(
    parts: Parts, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    context.permissions.require(Operation.DESCRIBE)
    return DescribeUserScramCredentialsResponse(results=describe(parts.image.scram, request))


def describe(
    image: ScramImage, request: DescribeUserScramCredentialsRequest
) -> list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult]:
    """The results for the users of a request, in their order; a user who is named twice has an error."""
    asked = Counter(user.name for user in request.users or ()) or dict.fromkeys(image.users(), 1)
    return [_result(image, user, is_repeated=count > 1) for user, count in asked.items()]


def _result(
    image: ScramImage, user: str, *, is_repeated: bool
) -> DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult(user=user)
    if is_repeated:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
        return result
    result.credential_infos = [
        DescribeUserScramCredentialsResponse.CredentialInfo(
            mechanism=mechanism, iterations=credential.iterations
        )
        for mechanism in ScramMechanism
        if (credential := image.credential(mechanism, user)) is not None
    ]
    if not result.credential_infos:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"Attempt to describe a user credential that does not exist: {user}"
    return result


async def handle_as_controller(
    parts: Parts, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    return handle(parts, request, context)


def answer_error(
    request: DescribeUserScramCredentialsRequest, error: KafkaError, _version: int
) -> DescribeUserScramCredentialsResponse:
    """One error for the request and one for each user, whom Kafka does not name there."""
    failed = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult(
        error_code=error.code, error_message=error.message
    )
    return DescribeUserScramCredentialsResponse(
        error_code=error.code,
        error_message=error.message,
        results=[failed] * len(request.users or ()),
    )


API = (
    Api(DescribeUserScramCredentialsRequest, answer_error=answer_error)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node, handle_as_controller)
    .needs((Operation.DESCRIBE, ResourceType.CLUSTER))
)
