"""Translation of LIKE patterns to regular expressions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_ANY: Final = "[^\n\r\x85\u2028\u2029]"
"""Matches any character but a line terminator, like the dot in Java's patterns."""
_SIGNS: Final = {"%": f"{_ANY}*", "_": _ANY}


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """Translate a LIKE pattern, which must match a whole text.

    A character after the escape character is literal. Raises ValueError if the escape character is last.
    """
    parts: list[str] = []
    escaped = False
    for sign in pattern:
        if escaped:
            escaped = False
            parts.append(re.escape(sign))
        elif sign == escape:
            escaped = True
        else:
            parts.append(_SIGNS.get(sign) or re.escape(sign))
    if escaped:
        raise ValueError(f"found the pattern {pattern!r}, which ends with the escape character {escape!r}")
    return re.compile("".join(parts))


def is_like(text: str, pattern: str, escape: str = "") -> bool:
    return like_pattern(pattern, escape).fullmatch(text) is not None
