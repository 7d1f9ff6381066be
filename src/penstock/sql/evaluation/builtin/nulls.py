"""The handling of nulls in most functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function return null if any argument is null."""

    @wraps(function)
    def of_values(*values: Any) -> Any:
        return None if None in values else function(*values)

    return of_values
