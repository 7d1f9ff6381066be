"""DescribeCluster (60): report the cluster's id, its nodes, and the node to send controller requests to.

Versions 0 to 2. A broker's listener describes brokers and a controller's listener describes controllers
(KIP-919). A request for the other kind is refused. Everybody may see the brokers, as clients need them; a
controller answers only who may alter the cluster.

Versions:
- 1: `endpoint_type`, to describe controllers (KIP-919)
- 2: fenced brokers, if requested, and `is_fenced` (KIP-1073)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from penstock.broker.api_entry import Api
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DescribeClusterRequest, DescribeClusterResponse
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quorum.quorum import Quorum
    from penstock.metadata.image import MetadataImage
    from penstock.security.permissions import Permissions

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
ENDPOINT_TYPE_VERSION: Final = 1
"""Older clients do not know the error MISMATCHED_ENDPOINT_TYPE."""

_NAMES: Final = {_BROKERS: "BROKER", _CONTROLLERS: "CONTROLLER"}


class Parts(Protocol):
    """The parts of the node that this API uses."""

    cluster_id: str
    image: MetadataImage
    node_id: int
    quorum: Quorum


def handle(parts: Parts, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        return _refused(request.endpoint_type, _BROKERS)
    response = DescribeClusterResponse(
        endpoint_type=_BROKERS,
        cluster_id=parts.cluster_id,
        controller_id=parts.node_id,
        brokers=_brokers(parts, context.listener_name, request.include_fenced_brokers),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context.permissions)
    return response


def cluster_operations(permissions: Permissions) -> int:
    """The bit field of the operations on the cluster that a client may learn of; 0 without DESCRIBE."""
    if not permissions.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return permissions.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _brokers(
    parts: Parts, listener_name: str, include_fenced: bool
) -> list[DescribeClusterResponse.DescribeClusterBroker]:
    brokers = []
    for broker_id, registration in sorted(parts.image.brokers.items()):
        endpoint = registration.endpoint(listener_name)
        if endpoint is None or (registration.fenced and not include_fenced):
            continue
        brokers.append(
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=registration.rack,
                is_fenced=registration.fenced,
            )
        )
    return brokers


async def handle_as_controller(
    parts: Parts, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    context.permissions.require(Operation.ALTER)
    if request.endpoint_type != _CONTROLLERS:
        if context.api_version < ENDPOINT_TYPE_VERSION:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the request is for brokers, and this is a controller"
            )
        return _refused(request.endpoint_type, _CONTROLLERS)
    controllers = _controllers(parts, context.listener_name)
    leader_id = parts.quorum.leader_id
    is_known = any(controller.broker_id == leader_id for controller in controllers)
    response = DescribeClusterResponse(
        endpoint_type=_CONTROLLERS,
        cluster_id=parts.cluster_id,
        controller_id=leader_id if leader_id is not None and is_known else -1,
        brokers=controllers,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context.permissions)
    return response


def _controllers(parts: Parts, listener_name: str) -> list[DescribeClusterResponse.DescribeClusterBroker]:
    """The controllers that have registered an address on this listener."""
    return [
        DescribeClusterResponse.DescribeClusterBroker(
            broker_id=controller_id, host=endpoint.host, port=endpoint.port
        )
        for controller_id, record in sorted(parts.image.cluster.controllers.items())
        for endpoint in record.end_points
        if endpoint.name == listener_name
    ]


def _refused(asked: int, here: int) -> DescribeClusterResponse:
    if asked in _NAMES:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=(
                f"The request was sent to an endpoint of type {_NAMES[here]}, "
                f"but we wanted an endpoint of type {_NAMES[asked]}"
            ),
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Unsupported endpoint type {asked}",
    )


API = (
    Api(DescribeClusterRequest)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node, handle_as_controller)
    .needs(
        (Operation.DESCRIBE, ResourceType.CLUSTER, "on brokers, to see the authorized operations"),
        (Operation.ALTER, ResourceType.CLUSTER, "on controllers"),
    )
)
