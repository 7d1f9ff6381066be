"""Content types, and which of several an `Accept` asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

JSON: Final = "application/json"
KSQL_V1: Final = "application/vnd.ksql.v1+json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"


def chosen(accept: str | None, offered: Sequence[str]) -> str | None:
    """The one of ``offered`` that is liked most, the first where several are; None: none is taken."""
    if accept is None or not accept.strip():
        return offered[0]
    weights = dict(_weighted(part) for part in accept.split(",") if part.strip())
    best = max(offered, key=lambda name: _weight(name, weights))
    return best if _weight(best, weights) > 0 else None


def _weight(name: str, weights: dict[str, float]) -> float:
    """What is more specific counts."""
    group = name.partition("/")[0] + "/*"
    return next((weights[each] for each in (name, group, "*/*") if each in weights), 0.0)


def _weighted(part: str) -> tuple[str, float]:
    name, *parameters = part.split(";")
    weight = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                weight = min(1.0, max(0.0, float(value)))
            except ValueError:
                weight = 0.0
    return name.strip().lower(), weight
