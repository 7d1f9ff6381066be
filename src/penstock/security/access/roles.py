"""Roles of the clients of HTTP servers: reader, writer and admin.

A role includes those before it. At the schema registry, a role may be limited to the subjects whose names
begin with a prefix: `writer:orders-`. Such a role gives nothing that concerns the whole server.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.security.permissions import ANONYMOUS


class Role(IntEnum):
    """The role of a client; a greater role includes the lesser ones."""

    READER = 1
    WRITER = 2
    ADMIN = 3


ROLES: Final = {role.name.lower(): role for role in Role}


class Grant(NamedTuple):
    """A role for the names that begin with the prefix; without a prefix, for the whole server."""

    role: Role
    prefix: str = ""

    @classmethod
    def of(cls, text: str) -> Grant | None:
        """Parse `role` or `role:prefix`; None for any other word. The prefix may contain colons."""
        name, _, prefix = text.partition(":")
        role = ROLES.get(name)
        return None if role is None else cls(role, prefix)


@dataclass(frozen=True, slots=True)
class Identity:
    """A client that may come: its principal, and what it may do.

    ``is_certified`` says that a certificate identifies it, so that no header of its requests does.
    """

    principal: str
    grants: tuple[Grant, ...]
    is_certified: bool = False

    def may(self, role: Role, name: str = "") -> bool:
        """Whether the client has the role for a name, or for the whole server."""
        return any(grant.role >= role and name.startswith(grant.prefix) for grant in self.grants)

    def has(self, role: Role) -> bool:
        """Whether the client has the role for anything."""
        return any(grant.role >= role for grant in self.grants)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes of the names that the client may read."""
        return tuple(sorted({grant.prefix for grant in self.grants}))

    @property
    def is_limited(self) -> bool:
        """Whether the client may read only some names."""
        return not self.may(Role.READER)


EVERYBODY: Final = Identity(ANONYMOUS, (Grant(Role.ADMIN),))
"""Any client of a server without authentication."""

VISITOR: Final = Identity(ANONYMOUS, (Grant(Role.READER),))
"""Any client, at a path that is exempt from authentication. It may only read there."""
