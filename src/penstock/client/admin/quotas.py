"""Set, find and remove the quotas of clients (KIP-546). Any broker takes the requests.

An entity is a mapping of the types `user`, `client-id` and `ip` to names. The name None is the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from penstock.client.connections.cluster import Cluster
from penstock.client.errors import error_from
from penstock.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

Entity: TypeAlias = Mapping[str, str | None]

_EXACT: Final = 0
_DEFAULT: Final = 1


class EntityQuotas(NamedTuple):
    """An entity with the values of its quotas by key."""

    entity: Entity
    values: Mapping[str, float]


def alter_quotas(cluster: Cluster, entity: Entity, values: Mapping[str, float | None]) -> None:
    """Set the quotas of an entity, or remove those whose value is None. Raises ServerError."""
    request = AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequest.EntryData(
                entity=[
                    AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[
                    AlterClientQuotasRequest.OpData(
                        key=key, value=0.0 if value is None else value, remove=value is None
                    )
                    for key, value in values.items()
                ],
            )
        ]
    )

    def alter() -> None:
        for result in cluster.call_any(request, AlterClientQuotasResponse).entries:
            if result.error_code:
                raise error_from(result.error_code, f"quotas of {entity_text(entity)}", result.error_message)

    cluster.retry(alter)


def describe_quotas(cluster: Cluster, names: Entity, *, strict: bool = False) -> list[EntityQuotas]:
    """The quotas of the entities that have these names, sorted; of all entities without names.

    If ``strict``, entities that have other types as well are left out. Raises ServerError.
    """
    request = DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequest.ComponentData(
                entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name
            )
            for kind, name in names.items()
        ],
        strict=strict,
    )

    def describe() -> list[EntityQuotas]:
        response = cluster.call_any(request, DescribeClientQuotasResponse)
        if response.error_code:
            raise error_from(response.error_code, "reading quotas", response.error_message)
        found = [
            EntityQuotas(
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)},
            )
            for entry in response.entries or ()
        ]
        return sorted(found, key=lambda quotas: [_sort_key(quotas.entity, kind) for kind in _TYPES])

    return cluster.retry(describe)


_TYPES: Final = ("user", "client-id", "ip")


def _sort_key(entity: Entity, kind: str) -> tuple[int, str]:
    """Entities without a type first, then the default, then the names."""
    if kind not in entity:
        return 0, ""
    name = entity[kind]
    return (1, "") if name is None else (2, name)


def entity_text(entity: Entity) -> str:
    """The name of an entity in messages, such as "user ann, default client-id"."""
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in entity.items())
