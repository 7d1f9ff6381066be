"""Functions with regular expressions, which have the syntax and the meaning of Java's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import regex

from penstock.java.patterns import compile_pattern
from penstock.java.replacements import replaced
from penstock.sql.evaluation.builtin.nulls import strict

MATCH_S: Final = 2.0
"""Limits the time of one search, because some patterns take exponential time for some texts."""

Match = regex.Match[str]


def _found(pattern: regex.Pattern[str], text: str, begin: int = 0) -> Match | None:
    """The first match from ``begin`` on. Raises ValueError if the search takes too long."""
    try:
        return pattern.search(text, begin, timeout=MATCH_S)
    except TimeoutError:
        raise ValueError(
            f"found a pattern that takes more than {MATCH_S:g} s for a text of {len(text)} characters, "
            "expected one without nested repetitions"
        ) from None


def _matches(pattern: regex.Pattern[str], text: str) -> Iterator[Match]:
    """The matches as Java's `find` returns them: after an empty one, the next character is skipped."""
    begin = 0
    while begin <= len(text) and (found := _found(pattern, text, begin)) is not None:
        yield found
        begin = found.end() if found.end() > found.start() else found.end() + 1


def _extract(pattern: str, text: str, group: int = 0) -> str | None:
    compiled = compile_pattern(pattern)
    if group > compiled.groups:
        return None
    found = _found(compiled, text)
    return None if found is None else _group(found, group)


def _extract_all(pattern: str, text: str, group: int = 0) -> list[str | None] | None:
    compiled = compile_pattern(pattern)
    if group > compiled.groups:
        return None
    return [_group(found, group) for found in _matches(compiled, text)]


def _group(found: Match, group: int) -> str | None:
    if group < 0:
        raise ValueError(f"found the group {group}, expected 0 or more")
    made: str | None = found.group(group)
    return made


def _replace(text: str, pattern: str, replacement: str) -> str:
    made, end = [], 0
    for found in _matches(compile_pattern(pattern), text):
        made += [text[end : found.start()], replaced(found, replacement)]
        end = found.end()
    return "".join([*made, text[end:]])


def _split(text: str, pattern: str) -> list[str]:
    """Split by a pattern that matches the empty text as Java's `split` does, by any other as Guava does."""
    compiled = compile_pattern(pattern)
    if not pattern or compiled.fullmatch("") is not None:
        return _split_between(compiled, text)
    parts, begin, search = [], 0, 0
    while search <= len(text) and (found := _found(compiled, text, search)) is not None:
        search = found.end()
        if search == begin:  # an empty match where the part begins does not end it
            search += 1
            continue
        parts.append(text[begin : found.start()])
        begin = search
    return [*parts, text[begin:]]


def _split_between(compiled: regex.Pattern[str], text: str) -> list[str]:
    """No part is empty at the beginning because of an empty match, nor at the end."""
    parts, begin = [], 0
    for found in _matches(compiled, text):
        if begin == 0 and found.end() == 0:
            continue
        parts.append(text[begin : found.start()])
        begin = found.end()
    if not parts:
        return [text]
    parts.append(text[begin:])
    while parts and not parts[-1]:
        parts.pop()
    return parts


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "REGEXP_EXTRACT": strict(_extract),
    "REGEXP_EXTRACT_ALL": strict(_extract_all),
    "REGEXP_REPLACE": strict(_replace),
    "REGEXP_SPLIT_TO_ARRAY": strict(_split),
}
