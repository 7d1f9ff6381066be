"""Functions on JSON strings and on URLs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import SplitResult, quote_plus, unquote, unquote_plus, urlsplit

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
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


class _Double(float):
    """A number that keeps its original text."""

    def __new__(cls, text: str) -> _Double:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def _read(text: str) -> Any:
    """Parse the JSON value at the start of a text and ignore the rest, as Jackson does."""
    begin = len(text) - len(text.lstrip(_SPACE))
    value, end = _DECODER.raw_decode(text, begin)
    if not isinstance(value, (str, list, dict)) and text[end : end + 1].strip(_SPACE):
        raise ValueError(f"found {text[begin:]!r}, expected JSON")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"found {name}, expected JSON")


_SPACE: Final = " \t\r\n"
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_Double, strict=False)


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[str | int, ...]:
    if not path.startswith("$"):
        raise ValueError(f"found the path {path}, expected one that begins with $")
    made: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"found {path[at:]} in the path {path}, expected .NAME or [NUMBER]")
        name, number, *quoted = step.groups()
        made.append(int(number) if number is not None else name or next(filter(None, quoted), ""))
        at = step.end()
    return tuple(made)


def _extract(text: str, path: str) -> str | None:
    try:
        found = _read(text)
    except ValueError:
        return None
    for step in _steps(path):
        if isinstance(step, int):
            if not isinstance(found, list) or step >= len(found):
                return None
        elif not isinstance(found, dict) or step not in found:
            return None
        found = found[step]
    return None if found is None else _shown(found)


def _shown(value: Any) -> str:
    """Return a string unchanged, and write anything else as JSON."""
    if isinstance(value, _Double):
        return value.text
    return value if isinstance(value, str) else _written(value)


def _is_json(text: str | None) -> bool:
    if not text:
        return False
    try:
        _read(text)
    except ValueError:
        return False
    return True


def _array_contains(text: str | None, wanted: Any) -> bool:
    if text is None:
        return False
    try:
        found = _read(text)
    except ValueError:
        return False
    if not isinstance(found, list):
        return False
    return any(type(each) is type(wanted) and each == wanted for each in found)


def _of_kind(kind: type, make: Callable[[Any], Any]) -> Callable[[str], Any]:
    def made(text: str) -> Any:
        found = _read(text)
        return make(found) if isinstance(found, kind) else None

    return strict(made)


def _concat(*texts: str) -> str | None:
    values = [_read(text) for text in texts]
    if not values:
        return None
    if all(isinstance(value, dict) for value in values):
        merged: dict[str, Any] = {}
        for value in values:
            merged |= value
        return _written(merged)
    joined: list[Any] = []
    for value in values:
        joined += value if isinstance(value, list) else [value]
    return _written(joined)


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


def _url(part: Callable[[SplitResult], Any]) -> Callable[[str], Any]:
    def found(text: str) -> Any:
        if re.search(r"\s", text):
            raise ValueError(f"found {text!r}, expected a URL")
        return part(urlsplit(text))

    return strict(found)


def _parameter(text: str, name: str) -> str | None:
    for pair in urlsplit(text).query.split("&"):
        key, _, value = pair.partition("=")
        if unquote_plus(key) == name:
            return unquote_plus(value)
    return None


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "EXTRACTJSONFIELD": strict(_extract),
    "IS_JSON_STRING": _is_json,
    "JSON_ARRAY_CONTAINS": _array_contains,
    "JSON_ARRAY_LENGTH": _of_kind(list, len),
    "JSON_CONCAT": strict(_concat),
    "JSON_ITEMS": _of_kind(list, lambda found: [_written(each) for each in found]),
    "JSON_KEYS": _of_kind(dict, list),
    "JSON_RECORDS": _of_kind(dict, lambda found: {key: _shown(value) for key, value in found.items()}),
    "URL_DECODE_PARAM": strict(unquote_plus),
    "URL_ENCODE_PARAM": strict(lambda text: quote_plus(text, safe="*-._")),
    "URL_EXTRACT_FRAGMENT": _url(lambda url: unquote(url.fragment) or None),
    "URL_EXTRACT_HOST": _url(lambda url: url.hostname),
    "URL_EXTRACT_PARAMETER": strict(_parameter),
    "URL_EXTRACT_PATH": _url(lambda url: unquote(url.path)),
    "URL_EXTRACT_PORT": _url(lambda url: url.port),
    "URL_EXTRACT_PROTOCOL": _url(lambda url: url.scheme or None),
    "URL_EXTRACT_QUERY": _url(lambda url: unquote(url.query) or None),
}
BY_TYPE: Final[dict[str, Callable[[Sequence[Any], SqlType], Callable[..., Any]]]] = {
    "TO_JSON_STRING": _to_json
}
