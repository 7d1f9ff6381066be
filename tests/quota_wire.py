"""Client quotas on the wire; an entity is written as `{"user": "ann", "client-id": None}`."""

from typing import TypeAlias

from broker_wire import Wire
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from waiting import wait_until

Names: TypeAlias = dict[str, str | None]
Outcome: TypeAlias = tuple[int, str | None]


def entry(names: Names, *ops: tuple[str, float | None]) -> AlterClientQuotasRequest.EntryData:
    """The alteration of an entity that sets keys to values, or removes them (None)."""
    return AlterClientQuotasRequest.EntryData(
        entity=[
            AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
            for kind, name in names.items()
        ],
        ops=[
            AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in ops
        ],
    )


def alter(
    wire: Wire,
    *entries: AlterClientQuotasRequest.EntryData,
    validate_only: bool = False,
    version: int | None = None,
) -> list[Outcome]:
    """Alter quotas, and return the code and the message of each entity."""
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    results = wire.ask(request, AlterClientQuotasResponse, version).entries
    return [(result.error_code, result.error_message) for result in results]


def set_quota(wire: Wire, names: Names, **values: float) -> None:
    """Set quotas, which are in force on this node when it returns."""
    [(code, message)] = alter(wire, entry(names, *values.items()))
    assert code == ErrorCode.NONE, message
    wait_until(lambda: values.items() <= described(wire, names).get(tuple(sorted(names.items())), {}).items())


def described(
    wire: Wire, names: Names, *, strict: bool = True, version: int | None = None
) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    """The quotas of the entities with these names, by entity; without any names, of all."""
    component = DescribeClientQuotasRequest.ComponentData
    request = DescribeClientQuotasRequest(
        components=[
            component(entity_type=kind, match_type=1 if name is None else 0, match=name)
            for kind, name in names.items()
        ],
        strict=strict,
    )
    response = wire.ask(request, DescribeClientQuotasResponse, version)
    assert response.error_code == ErrorCode.NONE, response.error_message
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in found.entity)): {
            value.key: value.value for value in found.values
        }
        for found in response.entries or ()
    }
