"""Versions of plugins and ranges of them, compared as Maven does: ``1.2``, ``[1.0,2.0)``, ``latest``.

A version is split at dots, at hyphens, and between letters and digits. Numbers are newer than words, and
some words have a place in time: ``1.0-alpha`` < ``1.0-rc1`` < ``1.0-SNAPSHOT`` < ``1.0`` < ``1.0-sp``.

A version with a word right after a dot or a zero, such as ``1.0b`` or ``1.0.cr``, may have another place than
Maven gives it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from itertools import zip_longest
from typing import Final

from penstock.connect.definitions.config_types import SPACE
from penstock.connect.errors import PluginVersionInvalid

LATEST: Final = "latest"
TOKEN: Final = re.compile(r"[.-]|\d+|[^\d.-]+")
SHORT_FORMS: Final = {"a": "alpha", "b": "beta", "m": "milestone"}
"""The words that a letter before a number stands for."""
RELEASES: Final = ("", "final", "ga", "release")
STAGES: Final = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")

Token = tuple[str, str | int]
"""The separator before a part of a version, and the part."""


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A version; two texts can be the same version, such as 1.0 and 1.0.0."""

    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and compared(self, other) == 0

    def __hash__(self) -> int:
        return hash(tuple(tokens(self.text)))

    def __lt__(self, other: Version) -> bool:
        return compared(self, other) < 0

    def __str__(self) -> str:
        return self.text


def compared(left: Version, right: Version) -> int:
    """Return a number below, at or above 0, as the left version is older, the same or newer."""
    for one, other in zip_longest(tokens(left.text), tokens(right.text)):
        first, second = place(one or padding(other)), place(other or padding(one))
        if first != second:
            return -1 if first < second else 1
    return 0


def tokens(text: str) -> list[Token]:
    """Split a version, and leave out zeros and words that mean a release at the end of each part."""
    found: list[Token] = []
    separator = ""
    is_open = True  # a separator, or the beginning, waits for its part
    words = TOKEN.findall(text.lower())
    for index, word in enumerate(words):
        if word in ".-":
            if is_open:
                found.append((separator, 0))
            separator, is_open = word, True
            continue
        if not is_open:
            separator = "-"  # between letters and digits
        following = words[index + 1] if index + 1 < len(words) else ""
        found.append((separator, part(word, following)))
        is_open = False
    return without_trailing_nulls(found)


def part(word: str, following: str) -> str | int:
    if word.isdecimal():
        return int(word)
    if word in SHORT_FORMS and following.isdecimal():
        return SHORT_FORMS[word]
    return "rc" if word == "cr" else "" if word in RELEASES else word


def without_trailing_nulls(found: list[Token]) -> list[Token]:
    kept: list[Token] = []
    for token in reversed(found):
        ends_part = not kept or kept[-1][0] == "-"
        if not (ends_part and token[1] in (0, "")):
            kept.append(token)
    return kept[::-1]


def padding(other: Token | None) -> Token:
    """The token of a version that ends before another, in the place of the other's token."""
    assert other is not None  # one of the two versions goes on
    return (other[0], 0 if isinstance(other[1], int) else "")


def place(token: Token) -> tuple[int, int, str]:
    """The place of a token in time: words, then numbers after a hyphen, then numbers after a dot."""
    separator, value = token
    if isinstance(value, int):
        return (1 if separator == "-" else 2, value, "")
    return (0, STAGES.index(value), "") if value in STAGES else (0, len(STAGES), value)


@dataclass(frozen=True, slots=True)
class Restriction:
    """An interval of versions; None leaves an end open."""

    least: Version | None
    includes_least: bool
    most: Version | None
    includes_most: bool

    def __contains__(self, version: Version) -> bool:
        if version == self.least:
            is_above = self.includes_least
        else:
            is_above = self.least is None or version > self.least
        if version == self.most:
            return is_above and self.includes_most
        return is_above and (self.most is None or version < self.most)

    def __str__(self) -> str:
        ends = f"{self.least or ''},{self.most or ''}"
        return f"{'[' if self.includes_least else '('}{ends}{']' if self.includes_most else ')'}"


@dataclass(frozen=True, slots=True)
class VersionRange:
    """One interval of versions or several."""

    restrictions: tuple[Restriction, ...]

    def __contains__(self, version: str) -> bool:
        return any(Version(version) in restriction for restriction in self.restrictions)

    def __str__(self) -> str:
        return ",".join(map(str, self.restrictions))


def required_versions(text: str | None) -> VersionRange | None:
    """Parse a required version or range. None accepts all versions, as ``latest`` does.

    Raises:
        PluginVersionInvalid: the text is no version and no range.
    """
    if text is None or text == LATEST:
        return None
    text = text.strip(SPACE)
    return parsed_range(text if text.startswith(("[", "(")) else f"[{text}]")


def parsed_range(text: str) -> VersionRange:
    restrictions: list[Restriction] = []
    rest = text
    while rest.startswith(("[", "(")):
        ends = [end for end in (rest.find(")"), rest.find("]")) if end >= 0]
        if not ends:
            raise PluginVersionInvalid(f"Unbounded range: {text}")
        restriction = parsed_restriction(rest[: min(ends) + 1])
        if restrictions and overlaps(restrictions[-1], restriction):
            raise PluginVersionInvalid(f"Ranges overlap: {text}")
        restrictions.append(restriction)
        rest = rest[min(ends) + 1 :].strip(SPACE)
        if rest.startswith(","):
            rest = rest[1:].strip(SPACE)
    if rest:
        problem = "Only fully-qualified sets allowed in multiple set scenario"
        raise PluginVersionInvalid(f"{problem}: {text}")
    return VersionRange(tuple(restrictions))


def parsed_restriction(text: str) -> Restriction:
    includes_least, includes_most = text.startswith("["), text.endswith("]")
    least, comma, most = text[1:-1].strip(SPACE).partition(",")
    if not comma:
        if not (includes_least and includes_most):
            raise PluginVersionInvalid(f"Single version must be surrounded by []: {text}")
        return Restriction(Version(least), True, Version(least), True)
    low, high = (Version(end.strip(SPACE)) if end.strip(SPACE) else None for end in (least, most))
    includes_both = includes_least and includes_most
    if low is not None and high is not None and (high < low or (high == low and not includes_both)):
        raise PluginVersionInvalid(f"Range defies version ordering: {text}")
    return Restriction(low, includes_least, high, includes_most)


def overlaps(earlier: Restriction, later: Restriction) -> bool:
    if earlier.most is None:
        return False
    return later.least is None or later.least < earlier.most
