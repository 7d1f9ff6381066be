"""The rules for config values, by the notation the tables use.

Each rule returns the problem in Kafka's own words. As in Kafka, a null value means "not set" and passes every
rule, unless the rule states otherwise.
"""

from __future__ import annotations

import re
from functools import cache

from penstock.metadata.configs.definition import ConfigValue, Problem, Rule

_RANGE = re.compile(r"\[(-?[\d.]+)\.\.(-?[\d.]*)\]")
_CHOICE = re.compile(r"(any-case )?\{([^}]*)\}( not-empty)?")
_THROTTLED_REPLICA = re.compile(r"[0-9]+:[0-9]+")
_VOTER = re.compile(r"[0-9]+@(\[[0-9A-Fa-f:.%]+\]|[^:@\s]+):[0-9]+")
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:@\s]+):[0-9]+")
_DURATION = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")

SUBJECT_STRATEGIES = "io.confluent.kafka.serializers.subject."
_STRATEGIES = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")


@cache
def rule_of(notation: str) -> Rule | None:
    """The rule that a table writes as ``notation``; None for an empty notation."""
    if not notation:
        return None
    if match := _RANGE.fullmatch(notation):
        return _in_range(_number(match[1]), _number(match[2]) if match[2] else None)
    if match := _CHOICE.fullmatch(notation):
        return _one_of(match[2].split(", "), any_case=match[1] is not None, not_empty=match[3] is not None)
    return _NAMED[notation]


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _in_range(low: int | float, high: int | float | None) -> Rule:
    def check(_name: str, value: ConfigValue) -> Problem | None:
        if not isinstance(value, int | float):
            return None
        if value < low:
            return Problem(str(value), f"Value must be at least {low}")
        if high is not None and value > high:
            return Problem(str(value), f"Value must be no more than {high}")
        return None

    return check


def _one_of(choices: list[str], *, any_case: bool, not_empty: bool) -> Rule:
    allowed = {choice.lower() for choice in choices} if any_case else set(choices)

    lead = "String must be one of (case insensitive): " if any_case else "String must be one of: "

    def check(name: str, value: ConfigValue) -> Problem | None:
        if not_empty and (problem := _not_empty(name, value)):
            return problem
        given = value if isinstance(value, list) else [] if value is None else [str(value)]
        for item in given:
            if (item.lower() if any_case else item) not in allowed:
                return Problem(item, lead + ", ".join(choices))
        return None

    return check


def _not_empty(name: str, value: ConfigValue) -> Problem | None:
    if value == "":
        return Problem("", "String must be non-empty")
    if value == []:
        return Problem("", f"Configuration '{name}' must not be empty")
    return None


def _gzip_level(_name: str, value: ConfigValue) -> Problem | None:
    if isinstance(value, int) and (value == -1 or 1 <= value <= 9):
        return None
    return Problem(str(value), "Value must be between 1 and 9 or equal to -1")


def _throttled_replicas(name: str, value: ConfigValue) -> Problem | None:
    items = value if isinstance(value, list) else []
    if items == ["*"] or all(map(_THROTTLED_REPLICA.fullmatch, items)):
        return None
    return Problem(
        f"[{', '.join(items)}]",
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )


def _subject_strategy(name: str, value: ConfigValue) -> Problem | None:
    if str(value).removeprefix(SUBJECT_STRATEGIES) in _STRATEGIES:
        return None
    expected = ", ".join(_STRATEGIES)
    return Problem(str(value), f"{name} must be one of {expected}, with {SUBJECT_STRATEGIES} before it")


def _share_offset_reset(name: str, value: ConfigValue) -> Problem | None:
    if value in ("earliest", "latest") or _DURATION.fullmatch(str(value)):
        return None
    return Problem(
        str(value),
        f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' "
        "or of the format 'by_duration:<PnDTnHnMn.nS>'.",
    )


def _voters(_name: str, value: ConfigValue) -> Problem | None:
    return _each(_VOTER, value, "each voter must be written as id@host:port")


def _host_ports(_name: str, value: ConfigValue) -> Problem | None:
    return _each(_HOST_PORT, value, "each server must be written as host:port")


def _each(pattern: re.Pattern[str], value: ConfigValue, expected: str) -> Problem | None:
    for item in value if isinstance(value, list) else []:
        if not pattern.fullmatch(item):
            return Problem(item, expected)
    return None


_NAMED: dict[str, Rule] = {
    "not-empty": _not_empty,
    "or-minus-one [1..9]": _gzip_level,
    "throttled-replicas": _throttled_replicas,
    "subject-strategy": _subject_strategy,
    "share-offset-reset": _share_offset_reset,
    "voters": _voters,
    "host-ports": _host_ports,
}
