"""Pieces of generated Python source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.sql.language.types import SqlType


@dataclass(frozen=True)
class Code:
    """A Python expression with its SQL type, where None is the type of NULL.

    ``text`` may be used only once, unless ``is_name``. ``value`` is the value if it is known in advance.
    """

    text: str
    type: SqlType | None
    nullable: bool = True
    is_name: bool = False
    value: Any = None


NULL: Final = Code("None", None, is_name=True)


class NullValue(ValueError):
    """An operator got NULL instead of a value, which ksqlDB reports as an error."""
