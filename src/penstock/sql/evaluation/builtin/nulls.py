"""The handling of nulls in functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from penstock.sql.evaluation.code import NullValue


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function return null if any argument is null."""

    @wraps(function)
    def of_values(*values: Any) -> Any:
        return None if None in values else function(*values)

    return of_values


def primitive(*places: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function fail if an argument at one of these places is null.

    ksqlDB's functions fail so for parameters of Java's primitive types, before they look at other arguments.
    """

    def of_function(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def of_values(*values: Any) -> Any:
            for place in places:
                if place < len(values) and values[place] is None:
                    raise NullValue(f"found NULL as argument {place + 1}, expected a value")
            return function(*values)

        return of_values

    return of_function
