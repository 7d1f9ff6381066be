"""Random texts: of letters and digits, or such as a regular expression matches."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from random import Random
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

from penstock.connect.errors import ConfigInvalid

Text = Callable[[Random], str]

CHARACTERS: Final = string.ascii_letters + string.digits
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
_MORE_MAX: Final = 10
"""The most repetitions of what has no limit in a regular expression, beyond those that it needs."""
_CATEGORIES: Final = {
    ops.CATEGORY_DIGIT: string.digits,
    ops.CATEGORY_NOT_DIGIT: "".join(sorted(set(_PRINTABLE) - set(string.digits))),
    ops.CATEGORY_WORD: f"{CHARACTERS}_",
    ops.CATEGORY_NOT_WORD: "".join(sorted(set(_PRINTABLE) - set(f"{CHARACTERS}_"))),
    ops.CATEGORY_SPACE: " \t",
    ops.CATEGORY_NOT_SPACE: _PRINTABLE[1:],
}


def text_of_length(chance: Random, length: int) -> str:
    """Return letters and digits."""
    return "".join(chance.choices(CHARACTERS, k=length))


def matching(pattern: str) -> Text:
    """Make the function that generates texts that a regular expression matches. Raises ConfigInvalid."""
    try:
        return _sequence(_parser.parse(pattern))
    except (re.error, KeyError, OverflowError) as error:
        raise ConfigInvalid(
            f"No texts can be generated for the regular expression {pattern!r}: {error}"
        ) from error


def _sequence(nodes: Any) -> Text:
    made = [_node(*each) for each in nodes]

    def text(chance: Random) -> str:
        return "".join([each(chance) for each in made])

    return text


def _node(op: Any, given: Any) -> Text:
    if op is ops.LITERAL:
        return lambda _: chr(given)
    if op is ops.ANY:
        return lambda chance: chance.choice(_PRINTABLE)
    if op is ops.NOT_LITERAL:
        others = _PRINTABLE.replace(chr(given), "")
        return lambda chance: chance.choice(others)
    if op is ops.IN:
        members = _members(given)
        return lambda chance: chance.choice(members)
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
        least, most, inner = given
        most = least + _MORE_MAX if most is ops.MAXREPEAT else most
        repeated = _sequence(inner)
        return lambda chance: "".join([repeated(chance) for _ in range(chance.randint(least, most))])
    if op is ops.SUBPATTERN:
        return _sequence(given[-1])
    if op is ops.BRANCH:
        branches = [_sequence(each) for each in given[1]]
        return lambda chance: chance.choice(branches)(chance)
    if op is ops.AT:
        return lambda _: ""
    raise KeyError(str(op))


def _members(given: Any) -> str:
    found: set[str] = set()
    for op, value in given:
        if op is ops.LITERAL:
            found.add(chr(value))
        elif op is ops.RANGE:
            found.update(map(chr, range(value[0], value[1] + 1)))
        elif op is ops.CATEGORY:
            found.update(_CATEGORIES[value])
    if given[0][0] is ops.NEGATE:
        found = set(_PRINTABLE) - found
    if not found:
        raise KeyError("a set without characters")
    return "".join(sorted(found))
