"""Numbers of versions as requests write them, and pages of lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeVar

from penstock.registry.subjects.errors import invalid_version

LATEST: Final = -1
VERSION_MAX: Final = (1 << 31) - 1

_Item = TypeVar("_Item")


def number(text: str) -> int:
    """A version from 1 on, or LATEST."""
    if text.strip().lower() == "latest":
        return LATEST
    if not re.fullmatch(r"[+-]?[0-9]{1,10}", text.strip(), re.ASCII):
        invalid_version(text)
    found = int(text)
    if found > VERSION_MAX:
        invalid_version(text)
    if found <= 0 and found != LATEST:
        invalid_version(str(found))
    return found


def page(items: Sequence[_Item], offset: int, limit: int, default: int, most: int) -> list[_Item]:
    """A part of a list. A limit that is none or too large is the default."""
    size = limit if 0 < limit <= most else default
    return list(items[max(offset, 0) : max(offset, 0) + size])
