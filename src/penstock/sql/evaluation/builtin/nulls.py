"""What most functions do with nulls."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, which gives null where an argument is null."""

    @wraps(function)
    def of_values(*values: Any) -> Any:
        return None if None in values else function(*values)

    return of_values
