"""Find the endpoint of a request.

Any instance answers a read from its own image. The leader decides each write and never forwards one.
Registering a schema that is already registered needs no leader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.registry.api.asked import Asked, not_found
from penstock.registry.subjects import Decision, Registry, RequestRefused
from penstock.security.access.roles import Role

Read = Callable[[Registry, Asked], Any]
Write = Callable[[Registry, Asked], Decision]


@dataclass(frozen=True, slots=True)
class Resource:
    """An endpoint with a ``read``, a ``write``, or both; ``needs`` is the role of clients that it answers.

    If the path has a subject, the role is needed for that subject (`permissions`).

    With both, the result of ``read`` is the answer unless it is None.
    """

    method: str
    path: str
    needs: Role
    read: Read | None = None
    write: Write | None = None
    is_text: bool = False
    has_body: bool = False

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the path's parameters if it matches this resource, else None."""
        parts = self.path.strip("/").split("/") if self.path != "/" else []
        if len(parts) != len(segments):
            return None
        found = {}
        for part, segment in zip(parts, segments, strict=True):
            if part.startswith("{") and segment:
                found[part[1:-1]] = segment
            elif part != segment:
                return None
        return found


def find(
    resources: Sequence[Resource], method: str, segments: Sequence[str]
) -> tuple[Resource, dict[str, str]]:
    """Find the resource of a request and its path parameters.

    Raises RequestRefused 404 for an unknown path, and 405 for a path that has other methods.
    """
    method = "GET" if method == "HEAD" else method
    matches = [(each, found) for each in resources if (found := each.match(segments)) is not None]
    for resource, found in matches:
        if resource.method == method:
            return resource, found
    if matches:
        raise RequestRefused(405, "HTTP 405 Method Not Allowed")
    raise not_found()


def methods(resources: Sequence[Resource], segments: Sequence[str]) -> list[str]:
    """The methods that a path supports."""
    found = {each.method for each in resources if each.match(segments) is not None}
    return sorted(found | {"HEAD"} if "GET" in found else found)
