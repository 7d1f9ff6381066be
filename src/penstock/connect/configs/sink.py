"""The keys of sinks, besides those of every connector, and the rules that concern several of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.connect.configs.connector import ConnectorDefaults, connector_definition
from penstock.connect.configs.key_table import define_table
from penstock.connect.configs.tables import connectors
from penstock.connect.definitions.config_def import ConfigDef, ConfigType
from penstock.connect.definitions.config_key import Validator
from penstock.connect.definitions.config_types import SPACE, invalid, java_text, parse_type
from penstock.connect.definitions.validators import DescribedValidator, ValidList
from penstock.java.patterns import PatternError, compile_pattern

TOPICS: Final = "topics"
TOPICS_REGEX: Final = "topics.regex"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"


def check_pattern(name: str, value: Any) -> None:
    try:
        compile_pattern(value or "")
    except PatternError as error:
        raise invalid(name, value, f"Invalid regex: {error}") from None


VALIDATORS: Final[Mapping[str, Validator]] = {
    TOPICS: ValidList(),
    TOPICS_REGEX: DescribedValidator(check_pattern, "valid regex"),
}


def sink_definition(defaults: ConnectorDefaults | None = None) -> ConfigDef:
    """The keys of every sink, with the defaults of a worker if they are given."""
    return define_table(connector_definition(defaults), connectors.SINK, VALIDATORS)


def has_dead_letter_topic(properties: Mapping[str, str | None]) -> bool:
    """Whether records that cannot be processed go to a topic."""
    return bool((properties.get(DEAD_LETTER_TOPIC) or "").strip())


def topic_errors(properties: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Check the topics of a sink, and yield the keys that are wrong, each with an error.

    A sink has either a list of topics or a pattern, and does not read its own topic of dead letters.
    """
    topics, pattern = properties.get(TOPICS) or "", properties.get(TOPICS_REGEX) or ""
    dead_letters = (properties.get(DEAD_LETTER_TOPIC) or "").strip(SPACE)
    if bool(topics.strip()) == bool(pattern.strip()):
        problem = f"Must configure one of {TOPICS} or {TOPICS_REGEX}"
        if topics.strip():
            problem = f"{TOPICS} and {TOPICS_REGEX} are mutually exclusive options, but both are set."
        yield from ((TOPICS, problem), (TOPICS_REGEX, problem))
    if not dead_letters.strip():
        return
    shown = f"The DLQ topic '{dead_letters}' may not be"
    if topics.strip() and dead_letters in (names := topic_names(topics)):
        problem = f"included in the list of topics ('{TOPICS}={java_text(names)}') consumed by the connector"
        yield TOPICS, f"{shown} {problem}"
    if pattern.strip() and matches(pattern, dead_letters):
        problem = (
            f"matched by the regex for the topics ('{TOPICS_REGEX}={pattern}') consumed by the connector"
        )
        yield TOPICS_REGEX, f"{shown} {problem}"


def topic_names(topics: str) -> list[str]:
    """The distinct names in a list of topics."""
    return [name for name in dict.fromkeys(parse_type(TOPICS, topics, ConfigType.LIST)) if name]


def matches(pattern: str, topic: str) -> bool:
    """Whether the name of a topic matches; nothing matches a pattern that is not valid."""
    try:
        return compile_pattern(pattern).fullmatch(topic) is not None
    except PatternError:
        return False
