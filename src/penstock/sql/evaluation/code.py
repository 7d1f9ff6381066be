"""A piece of Python source that gives a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.sql.types import SqlType


@dataclass(frozen=True)
class Code:
    """``text`` may be read once, and more often where it ``is_name``. A type of None is NULL's; ``value`` is
    what is known already.
    """

    text: str
    type: SqlType | None
    nullable: bool = True
    is_name: bool = False
    value: Any = None


NULL: Final = Code("None", None, is_name=True)


class NullValue(ValueError):
    """NULL where an operator needs a value, as ksqlDB reports it."""
