"""AlterUserScramCredentials (51): set and delete the SCRAM credentials of users (KIP-554).

Version 0. Each alteration succeeds or fails separately, and a request alters a user once at most. The client
sends the salted password, so that it should use an encrypted connection. Needs ALTER on the cluster.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.scram import alter_scram_credentials
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    context.permissions.require(Operation.ALTER)
    return await controller.submit_and_follow(partial(alter_scram_credentials, request=request))


def answer_error(
    request: AlterUserScramCredentialsRequest, error: KafkaError, _version: int
) -> AlterUserScramCredentialsResponse:
    """An error for each user, sorted as in Kafka."""
    users = {deletion.name for deletion in request.deletions}
    users |= {upsertion.name for upsertion in request.upsertions}
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(
                user=user, error_code=error.code, error_message=error.message
            )
            for user in sorted(users)
        ]
    )


API = (
    Api(AlterUserScramCredentialsRequest, answer_error=answer_error)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.ALTER, ResourceType.CLUSTER))
)
