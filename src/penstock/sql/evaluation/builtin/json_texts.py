"""Functions on texts in JSON. They read and write as Jackson does, which ksqlDB uses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final
from unicodedata import category

from penstock.sql.catalog import Column
from penstock.sql.evaluation.builtin.nulls import strict
from penstock.sql.formats import value_serde
from penstock.sql.language import times, types
from penstock.sql.language.types import SqlType

_TIMES: Final[dict[SqlType, Callable[[int], str]]] = {
    types.DATE: times.format_date,
    types.TIME: times.format_time,
    types.TIMESTAMP: times.format_timestamp,
}

# Reading


class _Missing:
    """The value of a text without any JSON. It prints as nothing and has no members."""


MISSING: Final = _Missing()
_SPACE: Final = " \t\r\n"
_EXPONENT_MAX: Final = 2**31 - 1
_INDEX: Final = re.compile(r"[+-]?\d+")


def _read(text: str) -> Any:
    """Parse the JSON value at the start of a text and ignore the rest, as Jackson does.

    Numbers with a fraction or an exponent are of type Decimal, so that they keep their digits. Raises
    ValueError.
    """
    begin = _after_space(text, 0)
    if begin == len(text):
        return MISSING
    value, end = _read_at(text, begin)
    if not _may_follow(value, text[end : end + 1]):
        raise ValueError(f"found {text[begin:]!r}, expected JSON")
    return value


def _may_follow(value: Any, letter: str) -> bool:
    """Whether the ignored rest of a text may begin with this letter.

    A number must be followed by a space, and `true`, `false` and `null` by no part of a name.
    """
    if isinstance(value, bool) or value is None:
        return not (letter >= "0" and f"a{letter}".isidentifier())
    return isinstance(value, (str, list, dict)) or letter == "" or letter in _SPACE


def _read_at(text: str, begin: int) -> tuple[Any, int]:
    """Parse the value that begins at a position: (value, end)."""
    try:
        return _DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        raise ValueError(f"found {text!r}, expected JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError("found JSON that is nested too deeply") from None


def _after_space(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _SPACE:
        at += 1
    return at


def _refuse(name: str) -> Any:
    raise ValueError(f"found {name}, expected JSON")


def _decimal(text: str) -> Decimal:
    """Java's BigDecimal has no negative zero, and an exponent of 32 bits."""
    try:
        found = Decimal(text)
    except ArithmeticError:
        found = None
    if found is None or abs(found.adjusted()) > _EXPONENT_MAX:
        raise ValueError(f"found {text}, expected a number with an exponent of 32 bits")
    return found if found else abs(found)


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_decimal)


def _elements(text: str) -> Iterator[Any]:
    """Read the elements of an array one after the other. Raises ValueError at the first that is invalid."""
    at = _after_space(text, 0)
    if not text.startswith("[", at):
        return
    at = _after_space(text, at + 1)
    if text.startswith("]", at):
        return
    while True:
        value, at = _read_at(text, at)
        yield value
        at = _after_space(text, at)
        if not text.startswith(",", at):
            return
        at = _after_space(text, at + 1)


# Writing

_PLAIN_SCALE_MAX: Final = 9999
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT: Final = {
    '"': r"\"",
    "\\": r"\\",
    "\b": r"\b",
    "\t": r"\t",
    "\n": r"\n",
    "\f": r"\f",
    "\r": r"\r",
}


def _written(value: Any, number: Callable[[Decimal], str] = str) -> str:
    """Write a value as JSON. ``number`` prints a Decimal; `str` may use an exponent, as Java does."""
    if isinstance(value, str):
        return f'"{_ESCAPED.sub(_escape, value)}"'
    if isinstance(value, Decimal):
        return number(value)
    if isinstance(value, list):
        return f"[{','.join(_written(each, number) for each in value)}]"
    if isinstance(value, dict):
        members = (f"{_written(name)}:{_written(each, number)}" for name, each in value.items())
        return f"{{{','.join(members)}}}"
    return "" if value is MISSING else json.dumps(value)


def _escape(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04X}"


def _shown(value: Any) -> str:
    """Return a string unchanged, and write anything else as JSON."""
    return value if isinstance(value, str) else _written(value)


def _plain(value: Decimal) -> str:
    """Write a number without an exponent. Raises ValueError beyond Jackson's limit on the digits."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > _PLAIN_SCALE_MAX:
        raise ValueError(
            f"found {value}, expected at most {_PLAIN_SCALE_MAX} digits after the point or zeros"
        )
    return f"{value:f}"


# Paths


_QUOTED: Final = re.compile(r'\["((?:[^"\\]|\\["\\])*)"\]')


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[str, ...]:
    """The names and indexes of a path: `$.name`, `$[3]`, `$["any text"]`. Raises ValueError."""
    if not path.startswith("$"):
        raise ValueError(f"found the path {path}, expected one that begins with $")
    made: list[str] = []
    at = 1
    while at < len(path):
        step, end = _quoted_step(path, at) if path.startswith('["', at) else _plain_step(path, at)
        if end == at:
            raise ValueError(f'found {path[at:]} in the path {path}, expected .NAME, [NAME] or ["NAME"]')
        made.append(step)
        at = end
    return tuple(made)


def _quoted_step(path: str, begin: int) -> tuple[str, int]:
    """The step that begins here and its end, which is the beginning if it is invalid."""
    found = _QUOTED.match(path, begin)
    return ("", begin) if found is None else (re.sub(r"\\(.)", r"\1", found[1]), found.end())


def _plain_step(path: str, begin: int) -> tuple[str, int]:
    """The step that begins here and its end, which is the beginning if it is invalid."""
    signs = {".": "_:@", "[": "_"}.get(path[begin])
    end = begin + 1
    while signs and end < len(path) and (path[end] in signs or _is_letter_or_digit(path[end])):
        end += 1
    step = path[begin + 1 : end]
    if path[begin] == "[":
        end = end + 1 if path.startswith("]", end) else begin
    return (step, end) if step else ("", begin)


def _is_letter_or_digit(letter: str) -> bool:
    """As Java decides for a char: characters outside the basic plane are neither."""
    kind = category(letter)
    return letter <= "\uffff" and (kind[0] == "L" or kind == "Nd")


# The functions


def _extract(text: str, path: str) -> str | None:
    steps = _steps(path)
    found = _read(text)
    for step in steps:
        if isinstance(found, list):
            index = int(step) if _INDEX.fullmatch(step) else -1
            if not 0 <= index < len(found):
                return None
            found = found[index]
        elif isinstance(found, dict) and step in found:
            found = found[step]
        else:
            return None
    return _shown(found)


def _is_json(text: str | None) -> bool:
    try:
        return text is not None and _read(text) is not MISSING
    except ValueError:
        return False


_ELEMENT_TYPES: Final[dict[SqlType, type]] = {
    types.INTEGER: int,
    types.BIGINT: int,
    types.DOUBLE: Decimal,
    types.STRING: str,
    types.BOOLEAN: bool,
}


def _array_contains(given: Sequence[Any], result: SqlType) -> Callable[[str | None, Any], bool]:
    """Compare values with elements of their type alone: 1 is not in [1.0], and no DATE is in any array."""
    element_type = _ELEMENT_TYPES.get(given[1])

    def is_wanted(element: Any, wanted: Any) -> bool:
        if element is None or wanted is None:
            return element is wanted
        return type(element) is element_type and type(wanted)(element) == wanted

    def contains(text: str | None, wanted: Any) -> bool:
        try:
            return text is not None and any(is_wanted(each, wanted) for each in _elements(text))
        except ValueError:
            return False

    return contains


def _of_kind(kind: type, make: Callable[[Any], Any]) -> Callable[[str], Any]:
    def made(text: str) -> Any:
        found = _read(text)
        return make(found) if isinstance(found, kind) else None

    return strict(made)


def _items(text: str) -> list[str]:
    found = _read(text)
    if not isinstance(found, list):
        raise ValueError(f"found {text!r}, expected an array in JSON")
    return list(map(_written, found))


def _concat(*texts: str) -> str | None:
    values = [_read(text) for text in texts]
    if not values or MISSING in values:
        return None
    if all(isinstance(value, dict) for value in values):
        merged: dict[str, Any] = {}
        for value in values:
            merged |= value
        return _written(merged, _plain)
    if len(values) == 1:
        return _written(values[0], _plain)
    joined: list[Any] = []
    for value in values:
        joined += value if isinstance(value, list) else [value]
    return _written(joined, _plain)


def _to_json(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    """Write values as the format JSON does."""
    if given[0] is None:
        return lambda value: "null"
    of_time = _TIMES.get(given[0])
    if of_time is not None:
        return lambda value: "null" if value is None else f'"{of_time(value)}"'
    serde = value_serde([Column("V", given[0])], "JSON", {"WRAP_SINGLE_VALUE": "false"})

    def written(value: Any) -> str:
        return "null" if value is None else serde.serialize((value,)).decode()

    return written


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "EXTRACTJSONFIELD": strict(_extract),
    "IS_JSON_STRING": _is_json,
    "JSON_ARRAY_LENGTH": _of_kind(list, len),
    "JSON_CONCAT": strict(_concat),
    "JSON_ITEMS": strict(_items),
    "JSON_KEYS": _of_kind(dict, list),
    "JSON_RECORDS": _of_kind(dict, lambda found: {key: _shown(value) for key, value in found.items()}),
}
BY_TYPE: Final[dict[str, Callable[[Sequence[Any], SqlType], Callable[..., Any]]]] = {
    "JSON_ARRAY_CONTAINS": _array_contains,
    "TO_JSON_STRING": _to_json,
}
