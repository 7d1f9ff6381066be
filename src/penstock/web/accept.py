"""Parse the content types of an `Accept` header (RFC 9110, 12.5.1). Pure."""

from __future__ import annotations


def weights_of(accept: str) -> dict[str, float]:
    """The client's preference for each media range that it names, from 0 to 1."""
    return dict(_weighted(part) for part in accept.split(",") if part.strip())


def weight_of(name: str, weights: dict[str, float]) -> float:
    """The preference for a media type; the most specific range applies."""
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
