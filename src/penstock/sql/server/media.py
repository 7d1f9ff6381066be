"""Content types, and which of several an `Accept` asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.web.accept import weight_of, weights_of

JSON: Final = "application/json"
KSQL_V1: Final = "application/vnd.ksql.v1+json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"


def chosen(accept: str | None, offered: Sequence[str]) -> str | None:
    """The one of ``offered`` that is liked most, the first where several are; None: none is taken."""
    if accept is None or not accept.strip():
        return offered[0]
    weights = weights_of(accept)
    best = max(offered, key=lambda name: weight_of(name, weights))
    return best if weight_of(best, weights) > 0 else None
