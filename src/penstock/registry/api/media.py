"""Content negotiation between three names of the same JSON and ``application/octet-stream``.

The functions are pure.
"""

from __future__ import annotations

from typing import Final

from penstock.web.accept import weight_of, weights_of

V1: Final = "application/vnd.schemaregistry.v1+json"
_ANSWERS: Final = {V1: 1.0, "application/vnd.schemaregistry+json": 0.9, "application/json": 0.5}
"""The content types of answers, each with the registry's own preference as a weight."""
_REQUESTS: Final = frozenset((*_ANSWERS, "application/octet-stream"))


def is_readable(content_type: str | None) -> bool:
    """Whether a body of this type is accepted; without a type it is read as JSON."""
    return not content_type or _name(content_type) in _REQUESTS


def answer_type(accept: str | None) -> str | None:
    """Return the answer's type for this ``Accept`` header, or None if the client accepts none of them."""
    if not accept or not accept.strip():
        return V1
    weights = weights_of(accept)
    best, name = max((weight_of(name, weights) * liked, name) for name, liked in _ANSWERS.items())
    return name if best > 0 else None


def _name(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
