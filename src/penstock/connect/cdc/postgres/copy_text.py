"""Reads rows in the text format of COPY. Pure.

The texts of values are those of the replication stream.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NULL: Final = "\\N"


def read_row(line: str) -> list[str | None]:
    """The columns of a line, which comes without its line feed."""
    if "\\" not in line:
        return list(line.split("\t"))
    return [_column(each) for each in line.split("\t")]


def _column(text: str) -> str | None:
    if text == _NULL:
        return None
    return _ESCAPE.sub(lambda found: _SPECIAL.get(found[1], found[1]), text) if "\\" in text else text
