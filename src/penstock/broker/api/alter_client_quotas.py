"""AlterClientQuotas (49): set and remove the quotas of users, client ids and IP addresses (KIP-546).

Versions 0 and 1. Each entity succeeds or fails separately. An IP entity may name a host, which this node must
be able to resolve. Needs ALTER_CONFIGS on the cluster.

Versions:
- 1: flexible encoding (KIP-482)
"""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.metadata.controller.client_quotas import alter_client_quotas, host_names
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import AlterClientQuotasRequest, AlterClientQuotasResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


class Parts(Protocol):
    """The parts of the node that this API uses."""

    controller: Controller
    loop: asyncio.AbstractEventLoop


async def handle_as_controller(
    parts: Parts, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    context.permissions.require(Operation.ALTER_CONFIGS)
    unknown_hosts = await _unknown_hosts(parts.loop, host_names(request))
    decide = partial(alter_client_quotas, request=request, unknown_hosts=unknown_hosts)
    return await parts.controller.submit_and_follow(decide)


async def _unknown_hosts(loop: asyncio.AbstractEventLoop, names: Iterable[str]) -> set[str]:
    """The names that cannot be resolved, asked one by one, because a lookup occupies a thread."""
    unknown = set()
    for name in names:
        try:
            await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            unknown.add(name)
    return unknown


def answer_error(
    request: AlterClientQuotasRequest, error: KafkaError, _version: int
) -> AlterClientQuotasResponse:
    """An error for each entity."""
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponse.EntryData(
                error_code=error.code,
                error_message=error.message,
                entity=[
                    AlterClientQuotasResponse.EntityData(
                        entity_type=part.entity_type, entity_name=part.entity_name
                    )
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


API = (
    Api(AlterClientQuotasRequest, answer_error=answer_error)
    .on_controller(lambda node: node, handle_as_controller)
    .needs((Operation.ALTER_CONFIGS, ResourceType.CLUSTER))
)
