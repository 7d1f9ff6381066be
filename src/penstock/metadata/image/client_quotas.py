"""The quotas of clients, by entity and key (KIP-546).

An entity names whom a quota limits: a user, a client id, both together, or an IP address.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from penstock.protocol.messages import ClientQuotaRecord

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

ClientQuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""The types and names of an entity, sorted by type, so that equal entities are equal keys.

The name None stands for the default of the type: all names that have no quota of their own.
"""

_versions: Final = itertools.count(1)


def client_quota_entity(names: Mapping[str, str | None]) -> ClientQuotaEntity:
    """The entity that has these names by type, as in `{"user": "ann", "client-id": None}`."""
    return tuple(sorted(names.items()))


class ClientQuotasImage:
    """All quotas, including those of types and keys that only a newer release knows."""

    def __init__(self) -> None:
        self.by_entity: dict[ClientQuotaEntity, Mapping[str, float]] = {}
        """The values of each entity by key. A change replaces a mapping, and none is empty."""
        self.version = 0
        """Differs between any two states of any images of this process."""

    def copy(self) -> ClientQuotasImage:
        twin = ClientQuotasImage()
        twin.by_entity, twin.version = self.by_entity.copy(), self.version
        return twin

    def replay(self, record: ClientQuotaRecord) -> None:
        """Set or remove one value."""
        entity = client_quota_entity({part.entity_type: part.entity_name for part in record.entity})
        values = dict(self.by_entity.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self.by_entity[entity] = values
        else:
            self.by_entity.pop(entity, None)
        self.version = next(_versions)

    def records(self) -> Iterator[ClientQuotaRecord]:
        for entity, values in self.by_entity.items():
            for key, value in values.items():
                yield client_quota_record(entity, key, value)


def client_quota_record(entity: ClientQuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """The record that sets a value of an entity, or removes it if the value is None."""
    return ClientQuotaRecord(
        entity=[ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )
