"""Debezium's lists of regular expressions: separated by commas, matched in whole and in any case."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import regex

from penstock.connect.errors import ConfigInvalid
from penstock.java.patterns import PatternError, compile_pattern

_COMMA: Final = re.compile(r"(?<!\\),")


def expressions(name: str, text: str) -> list[regex.Pattern[str]]:
    r"""The expressions of a list; ``\,`` stands for a comma. Raises ConfigInvalid, which gives ``name``."""
    parts = (part.strip().replace("\\,", ",") for part in _COMMA.split(text))
    return [expression(name, each) for each in parts if each]


def expression(name: str, text: str) -> regex.Pattern[str]:
    """One expression. Raises ConfigInvalid, which gives ``name``."""
    try:
        return compile_pattern("(?i)" + text)
    except PatternError as error:
        raise ConfigInvalid(f"{name} has {text!r}, which is not a regular expression: {error}") from error


def any_of(name: str, text: str) -> Callable[[str], bool]:
    """The function that tells whether one expression of a list matches."""
    patterns = expressions(name, text)
    return lambda value: any(pattern.fullmatch(value) for pattern in patterns)


def either(include_name: str, include: str, exclude_name: str, exclude: str) -> Callable[[str], bool]:
    """The function for a pair of lists, of which one may be given; without both, everything is included.

    Raises:
        ConfigInvalid: both are given, or one is not valid.
    """
    if include.strip() and exclude.strip():
        raise ConfigInvalid(f"{include_name} and {exclude_name} are both set; expected one of them")
    if include.strip():
        return any_of(include_name, include)
    excluded = any_of(exclude_name, exclude)
    return lambda value: not excluded(value)


def message_keys(text: str) -> Callable[[str, str], Sequence[str] | None]:
    """Read ``message.key.columns``: ``schema.table:column,column;…``, with regular expressions for tables.

    The function gives the columns of a schema's (or database's) table, or None. Raises ConfigInvalid.
    """
    rules = []
    for rule in filter(None, (each.strip() for each in text.split(";"))):
        table, colon, columns = rule.rpartition(":")
        if not colon:
            raise ConfigInvalid(f"message.key.columns has {rule!r}; expected schema.table:column,column")
        rules.append(
            (expression("message.key.columns", table), [each.strip() for each in columns.split(",")])
        )

    def chosen(schema: str, table: str) -> Sequence[str] | None:
        return next((names for pattern, names in rules if pattern.fullmatch(f"{schema}.{table}")), None)

    return chosen
