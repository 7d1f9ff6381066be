"""Java's regular expressions in configurations, and their limit on time."""

from __future__ import annotations

from typing import Any, Final

import regex

from penstock.connect.definitions.config_types import invalid
from penstock.connect.definitions.validators import DescribedValidator
from penstock.connect.errors import DataError
from penstock.java.patterns import PatternError, compile_pattern

MATCH_S: Final = 2.0
"""Limits the time of one match, because some patterns take exponential time for some texts."""
TOPICS_MAX: Final = 1000
"""Topics for which the result of a pattern is kept. A connector has few, and a match takes microseconds."""


def _check(name: str, value: Any) -> None:
    try:
        compile_pattern(value)
    except (PatternError, TypeError) as error:
        raise invalid(name, value, f"Invalid regex: {error}") from error


VALID_REGEX: Final = DescribedValidator(_check, "valid regex")
"""Accepts regular expressions in Java's syntax."""


def matches(pattern: regex.Pattern[str], text: str) -> bool:
    """Whether a pattern matches a whole text. Raises DataError if that takes too long."""
    try:
        return pattern.fullmatch(text, timeout=MATCH_S) is not None
    except TimeoutError:
        raise DataError(
            f"found a pattern that takes more than {MATCH_S:g} s for {text!r}, expected one without "
            "nested repetitions"
        ) from None
