"""Suggest names that exist for one that does not."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import ClusterMetadata

from penstock.cli.connection import REQUEST_TIMEOUT_S
from penstock.cli.partitions import is_internal

_SHOWN_MAX: Final = 3


class _Client(Protocol):
    """A consumer, a producer or an admin client."""

    def list_topics(self, *, timeout: float) -> ClusterMetadata: ...


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with the names most similar to one that is not known, after a full stop; or nothing."""
    by_lower: dict[str, list[str]] = {}
    for each in known:
        by_lower.setdefault(each.lower(), []).append(each)
    close = get_close_matches(name.lower(), by_lower, n=_SHOWN_MAX)
    *others, last = [repr(each) for lower in close for each in by_lower[lower]][:_SHOWN_MAX] or [""]
    if not last:
        return ""
    return f". Did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


def did_you_mean_topic(name: str, known: Iterable[str]) -> str:
    """Suggest topics as `did_you_mean` does; internal ones only for a name that begins as theirs do."""
    return did_you_mean(name, [each for each in known if is_internal(name) or not is_internal(each)])


def topics_like(client: _Client, name: str) -> str:
    """Suggest topics that the client may see; nothing if the named one exists, or if no list arrives."""
    try:
        known = client.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    except KafkaException:
        return ""
    return "" if name in known else did_you_mean_topic(name, known)
