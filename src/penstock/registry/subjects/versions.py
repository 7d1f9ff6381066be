"""Parse version numbers in requests, and cut lists into pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeVar

from penstock.registry.subjects.errors import invalid_version

LATEST: Final = -1
VERSION_MAX: Final = (1 << 31) - 1

_Item = TypeVar("_Item")


def number(text: str) -> int:
    """Parse a version: a number from 1 on, or LATEST."""
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
    """Return one page of a list. The default applies if the limit is not positive or exceeds ``most``."""
    size = limit if 0 < limit <= most else default
    return list(items[max(offset, 0) : max(offset, 0) + size])
