"""Which requests a client may send: the role that a resource needs, for the subject that is meant.

A client whose roles are limited by prefixes reads from a registry in which no other subject exists
(`Registry.limited_to`), so that neither ids nor lists, references or aliases show it one. Writes need the
whole registry. For them, the name of the path, the subject behind an alias, and all subjects that the new
schema refers to are checked here. Names are compared in their canonical form: without a context, a prefix
covers subjects of the default context, and `:.context:` covers those of a context.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.registry.api.asked import Asked
from penstock.registry.api.routing import Resource
from penstock.registry.subjects import Registry, RequestRefused
from penstock.registry.subjects.names import beside, normalized
from penstock.security.access.roles import Identity, Role

FORBIDDEN: Final = 40301
"""Confluent's error code for a client that is known, and may not do what it wants."""

_OPERATIONS: Final = {Role.READER: "Read", Role.WRITER: "Write", Role.ADMIN: "Admin"}
_WITH_ALIASES: Final = ("/subjects/", "/compatibility/")
"""The beginnings of the paths whose subject may be an alias."""


def seen_by(identity: Identity, registry: Registry) -> Registry:
    """Return the registry that a client reads."""
    return registry.limited_to(identity.prefixes) if identity.is_limited else registry


def check(identity: Identity, resource: Resource, asked: Asked, registry: Registry) -> None:
    """Check that the client may do what it asks for. Raises RequestRefused."""
    subject = asked.path.get("subject")
    if subject is None:
        # Reads of the whole registry show what the client may read.
        if not (identity.has(Role.READER) if resource.needs is Role.READER else identity.may(resource.needs)):
            raise denied(resource.needs)
        return
    meant = registry.aliased(subject) if resource.path.startswith(_WITH_ALIASES) else subject
    if not all(identity.may(resource.needs, normalized(name)) for name in (subject, meant)):
        raise denied(resource.needs, subject)
    for name in _references(asked.content):
        if not identity.may(Role.READER, beside(meant, name)):
            raise denied(Role.READER, name)


def denied(needs: Role, subject: str | None = None) -> RequestRefused:
    """The refusal of a client without the role, for a subject or for the whole registry."""
    place = "this server." if subject is None else f"Subject: {subject}"
    return RequestRefused(FORBIDDEN, f"User is denied operation {_OPERATIONS[needs]} on {place}")


def _references(content: Any) -> list[str]:
    """The subjects that the schema of a body refers to; later checks refuse a body of another form."""
    found = content.get("references") if isinstance(content, dict) else None
    if not isinstance(found, list):
        return []
    names = [each.get("subject") for each in found if isinstance(each, dict)]
    return [name for name in names if isinstance(name, str)]
