"""DescribeClientQuotas (48): report the quotas of the entities that match a filter (KIP-546).

Versions 0 and 1. Each component of a filter asks for a type of entity: with one name, with the default (the
name null), or with any name. A strict filter matches only entities without other types. Every broker answers
from its own metadata. Needs DESCRIBE_CONFIGS on the cluster.

Versions:
- 1: flexible encoding (KIP-482)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.network.turns import Steps, in_turns
from penstock.metadata.image.client_quotas import CLIENT_ID, IP, USER
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.broker.network.answers import Answer
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.image.client_quotas import ClientQuotaEntity, ClientQuotasImage

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2


class Parts(Protocol):
    """The parts of the node that this API uses."""

    image: MetadataImage


def handle(
    parts: Parts, request: DescribeClientQuotasRequest, context: RequestContext
) -> Answer[DescribeClientQuotasResponse]:
    context.permissions.require(Operation.DESCRIBE_CONFIGS)
    return in_turns(describe(parts.image.client_quotas, request))


def describe(
    image: ClientQuotasImage, request: DescribeClientQuotasRequest
) -> Steps[DescribeClientQuotasResponse]:
    """Describe the entities that match the filter, in steps, as there may be many.

    Raises KafkaError INVALID_REQUEST for an invalid filter, UNSUPPORTED_VERSION for an unknown entity type.
    """
    names, types = _filter(request.components)
    count = len(request.components) if request.strict else None
    entries: list[DescribeClientQuotasResponse.EntryData] = []
    for entity, values in list(image.by_entity.items()):
        yield
        has = dict(entity)
        if count in (None, len(entity)) and names.items() <= has.items() and types <= has.keys():
            entries.append(_description(entity, values))
    return DescribeClientQuotasResponse(entries=entries)


def _filter(
    components: list[DescribeClientQuotasRequest.ComponentData],
) -> tuple[dict[str, str | None], set[str]]:
    """The names that entities must have, by type, and the types for which any name will do."""
    names: dict[str, str | None] = {}
    types: set[str] = set()
    for component in components:
        kind, match_type = component.entity_type, component.match_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in names or kind in types:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if match_type == _EXACT:
            if component.match is None:
                raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            names[kind] = component.match
        elif match_type in (_DEFAULT, _SPECIFIED):
            if component.match is not None:
                title = "DEFAULT" if match_type == _DEFAULT else "SPECIFIED"
                raise _invalid(f"Request specified MATCH_TYPE_{title}, but also specified a match string.")
            if match_type == _DEFAULT:
                names[kind] = None
            else:
                types.add(kind)
        else:
            raise _invalid(f"Unknown match type {match_type}")
    asked = names.keys() | types
    if IP in asked and len(asked) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user "
            "or clientId filter component."
        )
    return names, types


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _description(
    entity: ClientQuotaEntity, values: Mapping[str, float]
) -> DescribeClientQuotasResponse.EntryData:
    return DescribeClientQuotasResponse.EntryData(
        entity=[
            DescribeClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
            for kind, name in entity
        ],
        values=[
            DescribeClientQuotasResponse.ValueData(key=key, value=value) for key, value in values.items()
        ],
    )


def answer_error(
    _request: DescribeClientQuotasRequest, error: KafkaError, _version: int
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


API = (
    Api(DescribeClientQuotasRequest, answer_error=answer_error)
    .on_broker(lambda node: node, handle)
    .needs((Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER))
)
