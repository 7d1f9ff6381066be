"""AlterClientQuotas: set and remove the quotas of clients in the metadata log (KIP-546)."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Container, Mapping
from typing import Final, NamedTuple, TypeAlias

from penstock.metadata.controller.state import (
    MAX_RECORDS_PER_REQUEST,
    ControllerState,
    Decision,
    Refusal,
)
from penstock.metadata.image.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuotaEntity,
    client_quota_entity,
    client_quota_record,
)
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AlterClientQuotasRequest, AlterClientQuotasResponse, Message

Entry: TypeAlias = AlterClientQuotasRequest.EntryData
Result: TypeAlias = AlterClientQuotasResponse.EntryData


class _WholeNumbers(NamedTuple):
    """A type of whole numbers: its name in messages, and its largest value."""

    name: str
    largest: int


_Keys: TypeAlias = Mapping[str, _WholeNumbers | None]
"""The type of each key's values; None stands for doubles."""

_LONG: Final = _WholeNumbers("a LONG", 2**63 - 1)
_USER_AND_CLIENT_KEYS: Final[_Keys] = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_IP_KEYS: Final[_Keys] = {CONNECTION_CREATION_RATE: _WholeNumbers("an INT", 2**31 - 1)}

_FRACTION_MAX: Final = 1e-6
"""A fraction up to this is taken for an error of rounding in a value that must be whole, as in Kafka."""

_EMPTY: Final = "Invalid empty client quota entity"


def alter_client_quotas(
    state: ControllerState, request: AlterClientQuotasRequest, unknown_hosts: Container[str] = ()
) -> Decision[AlterClientQuotasResponse]:
    """Alter quotas, where each entity succeeds or fails separately, with all its keys.

    An IP entity may name a host, unless it is in ``unknown_hosts``. An entity fails if it or a key of it is
    repeated. As in Kafka, the first entry of a repeated entity takes effect nevertheless.
    """
    records: list[Message] = []
    refusals: dict[ClientQuotaEntity, Refusal | None] = {}
    for entry in request.entries:
        entity = client_quota_entity({part.entity_type: part.entity_name for part in entry.entity})
        alterations = {op.key: None if op.remove else op.value for op in entry.ops}
        if entity in refusals or len(alterations) < len(entry.ops):
            message = f"Ignoring duplicate entity {_as_in_java(entity)}"
            refusals[entity] = Refusal(ErrorCode.INVALID_REQUEST, message)
            continue
        try:
            records += _altered(state, entity, alterations, unknown_hosts)
            refusals[entity] = None
        except Refusal as refusal:
            refusals[entity] = refusal
    if len(records) > MAX_RECORDS_PER_REQUEST:
        raise Refusal(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    results = [_result(entity, refusal) for entity, refusal in refusals.items()]
    return Decision([] if request.validate_only else records, AlterClientQuotasResponse(entries=results))


def host_names(request: AlterClientQuotasRequest) -> set[str]:
    """The names of IP entities that are no addresses, so that they have to be resolved."""
    names = {part.entity_name for entry in request.entries for part in entry.entity if part.entity_type == IP}
    return {name for name in names if name and not _is_address(name)}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]") if ":" in name else name)
    except ValueError:
        return False
    return True


def _altered(
    state: ControllerState,
    entity: ClientQuotaEntity,
    alterations: dict[str, float | None],
    unknown_hosts: Container[str],
) -> list[Message]:
    """The records of an entity's alterations that change something. Raises Refusal."""
    _check_names(entity)
    keys = _allowed_keys(entity, unknown_hosts)
    current = state.image.client_quotas.by_entity.get(entity, {})
    for key, value in alterations.items():
        if value is not None:
            _check_value(keys, key, value)
    return [
        client_quota_record(entity, key, value)
        for key, value in alterations.items()
        if value != current.get(key)
    ]


def _check_names(entity: ClientQuotaEntity) -> None:
    if not entity:
        raise Refusal(ErrorCode.INVALID_REQUEST, _EMPTY)
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")


def _allowed_keys(entity: ClientQuotaEntity, unknown_hosts: Container[str]) -> _Keys:
    """The keys that an entity may have. Raises Refusal for types that do not go together."""
    names = dict(entity)
    if IP not in names:
        return _USER_AND_CLIENT_KEYS
    if len(names) > 1:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        )
    if names[IP] in unknown_hosts:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{names[IP]} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _check_value(keys: _Keys, key: str, value: float) -> None:
    """Raise Refusal for an unknown key or a value out of range. Kafka lets NaN pass, which limits nothing."""
    if key not in keys:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {key}")
    if not value > 0:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    numbers = keys[key]
    if numbers is None:
        return
    if value > float(numbers.largest):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Proposed value for {key} is too large for {numbers.name}.")
    if math.fmod(value, 1.0) > _FRACTION_MAX:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{key} cannot be a fractional value.")


def _as_in_java(entity: ClientQuotaEntity) -> str:
    names = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{names}}})"


def _result(entity: ClientQuotaEntity, refusal: Refusal | None) -> Result:
    return AlterClientQuotasResponse.EntryData(
        error_code=ErrorCode.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        entity=[
            AlterClientQuotasResponse.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
        ],
    )
