"""Read JSON texts of schemas with exact numbers and bounded depth, and write them as Confluent does."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

from penstock.java.numbers import double_text
from penstock.java.strings import utf16
from penstock.registry.formats.errors import SchemaError

Json: TypeAlias = Any  # None, bool, int, Decimal, str, list, dict

# Limit on nested brackets. A walk over the schema needs a few calls for each level, and Python allows about a
# thousand.
DEPTH_MAX: Final = 128
EXPONENT_MAX: Final = 1_000  # a short text must not produce a number of a gigabyte
DIGITS_MAX: Final = 1_000

# A string without an end matches up to the end of the text. Searching for the end at each quote would take
# quadratic time.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def read(text: str, *, repeats: bool = True) -> Json:
    """Return the value of a JSON text. Raises SchemaError with line and column.

    If a name repeats in an object, the last value counts, or it is an error if ``repeats`` is False.
    """
    _check_depth(text)
    try:
        return json.loads(
            text,
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_constant,
            object_pairs_hook=None if repeats else _object,
        )
    except json.JSONDecodeError as error:
        found = repr(text[error.pos]) if error.pos < len(text) else "the end of the text"
        raise SchemaError(
            f"not valid JSON: {error.msg}, found {found} at line {error.lineno}, column {error.colno}"
        ) from None


def write(value: Json, *, number: Callable[[Decimal], str] = str, sort_keys: bool = False) -> str:
    """Return the shortest JSON text of a value.

    ``number`` formats decimals, by default as they were read.
    """
    pieces: list[str] = []
    _write(value, pieces.append, number, sort_keys)
    return "".join(pieces)


def _write(
    value: Json, add: Callable[[str], None], number: Callable[[Decimal], str], sort_keys: bool
) -> None:
    match value:
        case str():
            add(quoted(value))
        case None:
            add("null")
        case bool():
            add("true" if value else "false")
        case int():
            add(str(value))
        case Decimal():
            add(number(value))
        case dict():
            mark = "{"
            for key in sorted(value, key=utf16) if sort_keys else value:
                add(f"{mark}{quoted(key)}:")
                _write(value[key], add, number, sort_keys)
                mark = ","
            add("{}" if mark == "{" else "}")
        case list():
            mark = "["
            for item in value:
                add(mark)
                _write(item, add, number, sort_keys)
                mark = ","
            add("[]" if mark == "[" else "]")
        case _:
            raise TypeError(f"{type(value).__name__} is not a JSON value")


def quoted(text: str) -> str:
    """Return the text as a JSON string."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04X}"


def java_double(value: Decimal) -> str:
    """Format a number as Java formats a double, an infinite one as a string."""
    number = float(value)
    return f'"{double_text(number)}"' if math.isinf(number) else double_text(number)


def kind(value: Json) -> str:
    """The JSON type of a value, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | Decimal():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
    return "an object"


def shortened(value: Json, characters_max: int = 80) -> str:
    """Return a value's text for a message, truncated if it is long."""
    text = write(value)
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"


def _check_depth(text: str) -> None:
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                line = text.count("\n", 0, match.start()) + 1
                raise SchemaError(
                    f"nested too deeply at line {line}: expected at most {DEPTH_MAX} levels of brackets"
                )
        elif token in "]}":
            depth -= 1


def _integer(text: str) -> int:
    if len(text) > DIGITS_MAX:
        raise SchemaError(f"a number has {len(text)} digits, expected at most {DIGITS_MAX}")
    return int(text)


def _decimal(text: str) -> Decimal:
    if len(text) > DIGITS_MAX:
        raise SchemaError(f"a number has {len(text)} digits, expected at most {DIGITS_MAX}")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise SchemaError(f"the exponent of a number is too large: {text}") from None
    if abs(value.adjusted()) > EXPONENT_MAX:
        raise SchemaError(f"the exponent of a number is too large: {text}")
    return value


def _constant(text: str) -> Json:
    raise SchemaError(f"not valid JSON: found {text}, expected a number")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = Counter(name for name, _ in pairs)
        twice = next(name for name, count in names.items() if count > 1)
        raise SchemaError(f"not valid JSON Schema: the name {twice!r} occurs twice in one object")
    return result
