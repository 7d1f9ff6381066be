"""Find the quota that limits a client, by Kafka's order of precedence. Pure.

The most specific entity that matches a client limits it, and a quota of a user precedes one of a client id:

1. the user with the client id,
2. the user with the default client id,
3. the user,
4. the default user with the client id,
5. the default user with the default client id,
6. the default user,
7. the client id,
8. the default client id.

Clients share a quota if it comes from a user's entity (all connections of the user, with any client id) or a
client id's (all connections with the client id, of any user). The default entities are templates: each user
and client id that a default matches has the limit for itself. The tags of a limit name who shares it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.metadata.image.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    USER,
    ClientQuotaEntity,
    ClientQuotasImage,
    client_quota_entity,
)

_USER_TYPES: Final = frozenset({USER})
_CLIENT_ID_TYPES: Final = frozenset({CLIENT_ID})
_BOTH_TYPES: Final = frozenset({USER, CLIENT_ID})


class ClientLimit(NamedTuple):
    """A limit, and the tags of its metrics in Kafka: who shares it with the client."""

    user: str
    """Empty if users share the limit."""
    client_id: str
    """Empty if client ids share the limit."""
    limit: float | None
    """None if nothing limits the client."""


class ClientLimits:
    """The limits that one key, such as `producer_byte_rate`, sets for users and client ids.

    They are those of the image at the time of the call, and out of date once the image's `version` differs.
    """

    def __init__(self, image: ClientQuotasImage, key: str) -> None:
        self.version = image.version
        self._values = {
            entity: values[key]
            for entity, values in image.by_entity.items()
            if key in values and {kind for kind, _ in entity} <= _BOTH_TYPES
        }
        self._types = {frozenset(kind for kind, _ in entity) for entity in self._values}

    @property
    def is_empty(self) -> bool:
        """Whether no client has a limit, so that none needs to be measured."""
        return not self._values

    def find(self, user: str, client_id: str) -> ClientLimit:
        """The limit of a client, by the name of its principal and its client id (empty without one)."""
        user_tag, client_id_tag = self._tags(user, client_id)
        return ClientLimit(user_tag, client_id_tag, self._limit(user_tag, client_id_tag))

    def _tags(self, user: str, client_id: str) -> tuple[str, str]:
        """The names that share a client's limit. With entities of one type, all clients share in one way."""
        if self._types <= {_CLIENT_ID_TYPES}:
            return "", client_id
        if self._types == {_USER_TYPES}:
            return user, ""
        if self._types == {_BOTH_TYPES}:
            return user, client_id
        for name in (user, None):
            if _both(name, client_id) in self._values or _both(name, None) in self._values:
                return user, client_id
            if _user(name) in self._values:
                return user, ""
        return "", client_id

    def _limit(self, user: str, client_id: str) -> float | None:
        """The limit that clients with these tags share. Kafka matches no default with an empty client id."""
        if user and client_id:
            names = ((u, c) for u in (user, None) for c in (client_id, None))
            return self._first(*(_both(u, c) for u, c in names))
        if user:
            return self._first(_user(user), _user(None))
        if client_id:
            return self._first(_client_id(client_id), _client_id(None))
        return None

    def _first(self, *entities: ClientQuotaEntity) -> float | None:
        return next((self._values[entity] for entity in entities if entity in self._values), None)


def connection_rates(image: ClientQuotasImage) -> dict[str | None, float]:
    """The connections per second of each IP entity: by its address or host name, or None for the default."""
    return {
        entity[0][1]: values[CONNECTION_CREATION_RATE]
        for entity, values in image.by_entity.items()
        if CONNECTION_CREATION_RATE in values and [kind for kind, _ in entity] == [IP]
    }


def _both(user: str | None, client_id: str | None) -> ClientQuotaEntity:
    return client_quota_entity({USER: user, CLIENT_ID: client_id})


def _user(name: str | None) -> ClientQuotaEntity:
    return ((USER, name),)


def _client_id(name: str | None) -> ClientQuotaEntity:
    return ((CLIENT_ID, name),)
