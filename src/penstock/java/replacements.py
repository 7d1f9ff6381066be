"""Replacements for matches of regular expressions, as Java's Matcher.appendReplacement fills them in."""

from __future__ import annotations

import re
from typing import Final

import regex

Match = regex.Match[str]

_REFERENCE: Final = re.compile(r"\\(.)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\$(\d+)|[\\$]", re.DOTALL)


def replaced(found: Match, replacement: str) -> str:
    """Fill in a replacement: `$1` and `${name}` are groups, and a backslash escapes the next character."""

    def part(reference: re.Match[str]) -> str:
        escaped, name, digits = reference.groups()
        if escaped is not None:
            return str(escaped)
        if name is not None and name in found.re.groupindex:
            return found[name] or ""
        if digits is not None and int(digits[0]) <= found.re.groups:
            return _numbered(found, digits)
        raise ValueError(
            f"found {reference[0]} in the replacement {replacement!r}, expected $NUMBER or ${{NAME}} of a "
            "group, or a backslash before another character"
        )

    return _REFERENCE.sub(part, replacement)


def _numbered(found: Match, digits: str) -> str:
    """The group whose number has as many of the digits as there are groups, and the digits left over."""
    end = 1
    while end < len(digits) and int(digits[: end + 1]) <= found.re.groups:
        end += 1
    return (found[int(digits[:end])] or "") + digits[end:]
