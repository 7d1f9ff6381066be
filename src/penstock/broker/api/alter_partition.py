"""AlterPartition (56, KIP-497): a leader has followers that fell behind, or caught up.

Versions 2 and 3, the latter with the epochs of the brokers that shall be in sync (KIP-903).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.alter_partition import alter_partition
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.ALTER_PARTITION


async def handle_as_controller(
    broker: Broker, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    return await broker.controller.submit(
        partial(alter_partition, request=request, api_version=context.api_version)
    )
