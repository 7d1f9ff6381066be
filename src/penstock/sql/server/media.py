"""Content types, and the choice among them by an `Accept` header. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.web.accept import weight_of, weights_of

JSON: Final = "application/json"
KSQL_V1: Final = "application/vnd.ksql.v1+json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"


def chosen(accept: str | None, offered: Sequence[str]) -> str | None:
    """The type in ``offered`` with the greatest weight, the first if there are several; None if none fits."""
    if accept is None or not accept.strip():
        return offered[0]
    weights = weights_of(accept)
    best = max(offered, key=lambda name: weight_of(name, weights))
    return best if weight_of(best, weights) > 0 else None
