"""ElectLeaders (43, KIP-460): elect preferred leaders, or run unclean elections.

Versions 0 to 2. Needs ALTER on the cluster.

Versions:
- 1: `election_type`, for unclean elections, and an error code for the request (KIP-460)
- 2: flexible encoding (KIP-482)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.elections import elect_leaders
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import ElectLeadersRequest, ElectLeadersResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    context.permissions.require(Operation.ALTER)
    return await controller.submit_and_follow(partial(elect_leaders, request=request), request.timeout_ms)


def answer_error(request: ElectLeadersRequest, error: KafkaError, _version: int) -> ElectLeadersResponse:
    result, of_topic = ElectLeadersResponse.PartitionResult, ElectLeadersResponse.ReplicaElectionResult
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            of_topic(
                topic=topic.topic,
                partition_result=[
                    result(partition_id=partition, error_code=error.code, error_message=error.message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


API = (
    Api(ElectLeadersRequest, answer_error=answer_error)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.ALTER, ResourceType.CLUSTER))
)
