"""The largest record batch that a topic accepts (DescribeConfigs)."""

from __future__ import annotations

from typing import Final

from penstock.client.connections.cluster import Cluster
from penstock.client.errors import error_from
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse

MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_TOPIC: Final = 2  # the resource type
_DENIED: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def max_message_bytes(cluster: Cluster, topic: str) -> int | None:
    """The largest record batch that the topic accepts, in bytes; None if this client may not read it.

    Raises ServerError.
    """
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_TOPIC, resource_name=topic, configuration_keys=[MAX_MESSAGE_BYTES]
    )
    request = DescribeConfigsRequest(resources=[resource])

    def ask() -> int | None:
        [result] = cluster.call_any(request, DescribeConfigsResponse).results
        if result.error_code in _DENIED:
            return None
        if result.error_code:
            raise error_from(result.error_code, f"configuration of topic '{topic}'", result.error_message)
        values = {config.name: config.value for config in result.configs}
        text = values.get(MAX_MESSAGE_BYTES)
        return None if text is None else int(text)

    return cluster.retry(ask)
