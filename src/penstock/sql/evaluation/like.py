"""LIKE's patterns as regular expressions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# As in Java's patterns, neither sign stands for the end of a line.
_ANY: Final = "[^\n\r\x85\u2028\u2029]"
_SIGNS: Final = {"%": f"{_ANY}*", "_": _ANY}


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """What `LIKE pattern` matches, whole texts. Behind the escape character every sign stands for itself."""
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
