"""Generated names for columns without a name in the query. They differ from the names in all sources."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_NUMBERED: Final = re.compile(r"(.*?)(?:_(\d+))?", re.DOTALL)
_EXPRESSION: Final = "KSQL_COL"


def _parts(name: str) -> tuple[str, int]:
    """Split a name into its prefix and number. `ZIP_2` has number 2, and `ZIP` has number 0."""
    found = _NUMBERED.fullmatch(name)
    assert found is not None
    return found.group(1), int(found.group(2) or 0)


class GeneratedNames:
    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {_parts(name) for name in taken}
        self._next: dict[str, int] = {}

    def expression(self) -> str:
        """The next name for an expression: `KSQL_COL_0`, `KSQL_COL_1`, …"""
        return f"{_EXPRESSION}_{self._number(_EXPRESSION)}"

    def field(self, name: str) -> str:
        """The field's own name, with the next free number appended if it is taken."""
        prefix, _ = _parts(name)
        number = self._number(prefix)
        return f"{prefix}_{number}" if number else prefix

    def _number(self, prefix: str) -> int:
        number = self._next.get(prefix, 0)
        while (prefix, number) in self._taken:
            number += 1
        self._next[prefix] = number + 1
        return number
