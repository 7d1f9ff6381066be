"""The topics that a sink reads: ``topics``, or those that match ``topics.regex``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.connect.configs.sink import TOPICS, TOPICS_REGEX, topic_errors, topic_names
from penstock.connect.definitions.config_types import invalid
from penstock.java.patterns import PatternError, compile_pattern


def topics_of(properties: Mapping[str, str]) -> list[str] | Callable[[str], bool]:
    """Return the topics, or whether a name matches. Raises ConfigInvalid, with Connect's messages."""
    for key, problem in topic_errors(properties):
        raise invalid(key, properties.get(key), problem)
    names = topic_names(properties.get(TOPICS) or "")
    return names or _matcher(properties[TOPICS_REGEX])


def _matcher(regex: str) -> Callable[[str], bool]:
    try:
        pattern = compile_pattern(regex)
    except PatternError as error:
        raise invalid(TOPICS_REGEX, regex, f"Syntax error in regular expression: {error}") from error
    return lambda name: pattern.fullmatch(name) is not None
