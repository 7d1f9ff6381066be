"""DeleteGroups (42): delete empty groups with their offsets.

Versions 0 to 2. Behaves as in Kafka.

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: flexible encoding (KIP-482)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext


def handle(
    groups: GroupCoordinatorRuntime, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    codes: dict[str, ErrorCode] = {}
    under_way: dict[str, Awaitable[ErrorCode]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        code = _delete(groups, group_id)
        codes[group_id] = ErrorCode.NONE
        if isinstance(code, ErrorCode):
            codes[group_id] = code
        else:
            under_way[group_id] = code
    return _wait(codes, under_way) if under_way else _response(codes)


async def _wait(
    codes: dict[str, ErrorCode], under_way: dict[str, Awaitable[ErrorCode]]
) -> DeleteGroupsResponse:
    deleted = await asyncio.gather(*map(_code_of, under_way.values()))
    return _response(codes | dict(zip(under_way, deleted, strict=True)))


def _response(codes: dict[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in codes.items()
        ]
    )


def _delete(groups: GroupCoordinatorRuntime, group_id: str) -> ErrorCode | Awaitable[ErrorCode]:
    try:
        return groups.delete_group(group_id)
    except KafkaError as error:
        return error.code


async def _code_of(deletion: Awaitable[ErrorCode]) -> ErrorCode:
    try:
        return await deletion
    except KafkaError as error:
        return error.code


API = Api(DeleteGroupsRequest).on_broker(lambda node: node.groups, handle)
