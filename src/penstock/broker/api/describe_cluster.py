"""DescribeCluster (60): the cluster's id, its brokers, and who to send what concerns the controller.

Versions 0 to 2. Asked for controllers it refuses: it is a broker's listener (KIP-919).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.authorized_operations import CLUSTER_OPERATIONS
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.DESCRIBE_CLUSTER

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(
    broker: Broker, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        return _refused(request.endpoint_type)
    response = DescribeClusterResponse(
        endpoint_type=_BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=_brokers(broker, context.listener_name, request.include_fenced_brokers),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _brokers(
    broker: Broker, listener_name: str, include_fenced: bool
) -> list[DescribeClusterResponse.DescribeClusterBroker]:
    brokers = []
    for broker_id, registration in sorted(broker.image.brokers.items()):
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


def _refused(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=(
                "The request was sent to an endpoint of type BROKER, "
                "but we wanted an endpoint of type CONTROLLER"
            ),
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Unsupported endpoint type {endpoint_type}",
    )
