"""Content types: three names for the same JSON, and the one that says nothing. Pure."""

from __future__ import annotations

from typing import Final

from penstock.web.accept import weight_of, weights_of

V1: Final = "application/vnd.schemaregistry.v1+json"
#: What answers may be, and how much each is liked.
_ANSWERS: Final = {V1: 1.0, "application/vnd.schemaregistry+json": 0.9, "application/json": 0.5}
_REQUESTS: Final = frozenset((*_ANSWERS, "application/octet-stream"))


def is_readable(content_type: str | None) -> bool:
    """Whether a body of this type is taken; without one it is taken for JSON."""
    return not content_type or _name(content_type) in _REQUESTS


def answer_type(accept: str | None) -> str | None:
    """The type that a client with this ``Accept`` gets; None: it takes none of them."""
    if not accept or not accept.strip():
        return V1
    weights = weights_of(accept)
    best, name = max((weight_of(name, weights) * liked, name) for name, liked in _ANSWERS.items())
    return name if best > 0 else None


def _name(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
