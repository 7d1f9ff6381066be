"""The quota of the APIs that create and delete partitions: what a request is charged, and its throttle time.

The controller charges the client itself, also for a request that a broker has forwarded. It does not pause
anyone: the broker of the client reads the throttle time in the answer, and mutes the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext
    from penstock.broker.quotas.mutations import MutationQuota, MutationQuotas

R = TypeVar("R", CreateTopicsResponse, DeleteTopicsResponse, CreatePartitionsResponse)


class MutationParts(Protocol):
    """The parts of the node that these APIs use."""

    controller: Controller
    mutation_quotas: MutationQuotas


def quota_of(parts: MutationParts, context: RequestContext, strict_since: int) -> MutationQuota:
    """The quota of a request, which is strict from a version on."""
    is_strict = context.api_version >= strict_since
    return parts.mutation_quotas.of(context.principal, context.client_id, is_strict=is_strict)


async def throttled(
    quota: MutationQuota, answer: Coroutine[Any, Any, R], answer_error: Callable[[KafkaError], R]
) -> R:
    """The answer with its throttle time, which an error has as well: what a client used stays used.

    Raises KafkaError for errors without a throttle time, and NOT_CONTROLLER.
    """
    try:
        response = await answer
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER or not quota.throttle_ms():
            raise
        response = answer_error(error)
    response.throttle_time_ms = quota.throttle_ms()
    return response
