"""Functions on strings, some of which also take bytes."""

from __future__ import annotations

import hashlib
import re
import unicodedata
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from penstock.sql.evaluation.builtin.nulls import primitive, strict
from penstock.sql.evaluation.texts import trimmed
from penstock.sql.evaluation.utf16 import in_units, length, text_of, units_of
from penstock.sql.language import types
from penstock.sql.language.types import SqlType
from penstock.sql.language.utf8 import utf8

_WORD: Final = re.compile(r"[^ \t\n\x0b\f\r]+[ \t\n\x0b\f\r]*")
_ESCAPE: Final = re.compile(
    r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(u)u*\+?([0-9A-Fa-f]{4})?|([bntfr])|([\\\"'])?)"
)
_CONTROLS: Final = dict(zip("bntfr", "\b\n\t\f\r", strict=True))


def _chr(code: Any) -> str | None:
    """CHR. A string that begins with \\u may hold any of the escapes of Java's literals."""
    if isinstance(code, int):
        return chr(code) if 0 <= code <= 0x10FFFF else None
    if length(code) < 6 or not code.startswith("\\u"):
        return None
    return text_of(_ESCAPE.sub(_unescaped, code))


def _unescaped(found: re.Match[str]) -> str:
    octal, is_unicode, unit, control, itself = found.groups()
    if octal is not None:
        return chr(int(octal, 8))
    if is_unicode is not None and unit is None:
        raise ValueError(f"found {found.group()}, expected 4 hexadecimal digits after it")
    return chr(int(unit, 16)) if unit else _CONTROLS.get(control, itself or "")


def _concat(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    empty: Any = b"" if result == types.BYTES else ""
    return lambda *values: empty.join([value for value in values if value is not None])


def _concat_ws(separator: Any, *values: Any) -> Any:
    if not values:
        raise ValueError("found only a separator, expected values after it")
    if separator is None:
        return None
    return separator.join([value for value in values if value is not None])


@primitive(0)
def _elt(number: int, *values: str) -> str | None:
    return values[number - 1] if 1 <= number <= len(values) else None


def _field(wanted: str | None, *values: str) -> int:
    return values.index(wanted) + 1 if wanted is not None and wanted in values else 0


def _initcap(text: str) -> str:
    """INITCAP. White space before the first word is lost."""
    words = map(units_of, _WORD.findall(text.lower()))
    return text_of("".join(word[:1].upper() + word[1:] for word in words))


@primitive(2, 3)
def _instr(text: str | None, wanted: str | None, position: int = 1, occurrence: int = 1) -> int:
    """INSTR. For a negative position, both strings are reversed, except for their pairs of surrogates."""
    if text is None or wanted is None or not position or abs(position) > length(text):
        return 0
    if position < 0:
        text, wanted = text[::-1], wanted[::-1]
    units, wanted_units = units_of(text), units_of(wanted)
    at = _occurrence(units[abs(position) - 1 :], wanted_units, occurrence)
    if at < 0:
        return 0
    return at + position if position > 0 else len(units) + position - at - len(wanted_units) + 2


def _occurrence(text: str, wanted: str, number: int) -> int:
    """The place of the n-th occurrence, or -1. Occurrences may overlap; all of an empty string are at 0."""
    if number < 1:
        return -1
    if not wanted:
        return 0
    at = -1
    for _ in range(number):
        at = text.find(wanted, at + 1)
        if at < 0:
            break
    return at


def _padded(text: Any, size: int, padding: Any, *, left: bool) -> Any:
    if size < 0 or not padding:
        return None
    missing = size - len(text)
    if missing <= 0:
        return text[:size]
    fill = (padding * (missing // len(padding) + 1))[:missing]
    return fill + text if left else text + fill


_MASKS: Final = ("X", "x", "n", "-")
_MASKED_CATEGORIES: Final = ("Lu", "Ll", "Nd")


def _masker(masks: Sequence[str | None]) -> Callable[[str], str]:
    """The function that masks a string of units. A mask of None keeps its characters.

    ksqlDB goes from unit to unit, but looks at whole characters. So it masks the second half of a pair of
    surrogates once more, as a character of another kind.
    """
    for mask in masks:
        if mask is not None and length(mask) != 1:
            raise ValueError(f"found the mask {mask!r}, expected one character")
    *known, other = masks or _MASKS
    by_category = dict(zip(_MASKED_CATEGORIES, known, strict=True))

    def masked_letter(letter: str) -> str:
        mask = by_category.get(unicodedata.category(letter), other)
        return letter if mask is None else mask

    def masked(units: str) -> str:
        return "".join(
            masked_letter(letter) + (masked_letter(units_of(letter)[1]) if letter > "\uffff" else "")
            for letter in text_of(units)
        )

    return masked


def _mask(text: str | None, *masks: str | None) -> str | None:
    masker = _masker(masks)
    return None if text is None else masker(text)


def _mask_part(
    part: Callable[[str, int], tuple[str, str, str]],
) -> Callable[..., str | None]:
    """Build a MASK function. ``part(text, n)`` splits a text into kept, masked and kept characters."""

    def masked(text: str | None, count: int, *masks: str | None) -> str | None:
        masker = _masker(masks)
        if count < 0:
            raise ValueError(f"found {count} characters to mask, expected 0 or more")
        if text is None:
            return None
        before, inside, behind = part(text, count)
        return before + masker(inside) + behind

    return primitive(1)(in_units(masked))


def _kept_right(text: str, count: int) -> tuple[str, str, str]:
    at = max(0, len(text) - count)
    return "", text[:at], text[at:]


def _masked_right(text: str, count: int) -> tuple[str, str, str]:
    at = max(0, len(text) - count)
    return text[:at], text[at:], ""


def _split(text: Any, delimiter: Any) -> list[Any]:
    if delimiter:
        parts: list[Any] = text.split(delimiter)
        return parts
    whole = units_of(text) if isinstance(text, str) else text
    return [whole[place : place + 1] for place in range(len(whole))] or [text]


def _split_to_map(text: str, entries: str, keys: str) -> dict[str, str] | None:
    if not entries or not keys or entries == keys:
        return None
    pairs = [entry.split(keys) for entry in text.split(entries) if entry]
    return {pair[0]: pair[1] for pair in pairs if len(pair) > 1}


def _substring(text: Any, position: int, length: int | None = None) -> Any:
    size = len(text)
    start = position - 1 if position > 0 else size + position if position < 0 else 0
    start = min(max(start, 0), size)
    end = size if length is None else min(start + max(length, 0), size)
    return text[start:end]


def _uuid(*given: bytes | None) -> str | None:
    if not given:
        return str(uuid.uuid4())
    data = given[0]
    return str(uuid.UUID(bytes=data)) if data is not None and len(data) == 16 else None


def _length(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    if given[0] == types.BYTES:
        return strict(len)
    return strict(length)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "CHR": strict(_chr),
    "CONCAT_WS": _concat_ws,
    "ELT": _elt,
    "FIELD": _field,
    "INITCAP": strict(_initcap),
    "INSTR": _instr,
    "LCASE": strict(str.lower),
    "LPAD": strict(in_units(partial(_padded, left=True))),
    "MASK": in_units(_mask),
    "MASK_KEEP_LEFT": _mask_part(lambda text, count: (text[:count], text[count:], "")),
    "MASK_KEEP_RIGHT": _mask_part(_kept_right),
    "MASK_LEFT": _mask_part(lambda text, count: ("", text[:count], text[count:])),
    "MASK_RIGHT": _mask_part(_masked_right),
    "MD5": strict(lambda text: hashlib.md5(utf8(text), usedforsecurity=False).hexdigest()),
    "REPLACE": strict(in_units(str.replace)),
    "RPAD": strict(in_units(partial(_padded, left=False))),
    "SPLIT": strict(_split),
    "SPLIT_TO_MAP": strict(_split_to_map),
    "SUBSTRING": strict(in_units(_substring)),
    "TRIM": strict(trimmed),
    "UCASE": strict(str.upper),
    "UUID": _uuid,
}
BY_TYPE: Final[dict[str, Callable[[Sequence[Any], SqlType], Callable[..., Any]]]] = {
    "CONCAT": _concat,
    "LEN": _length,
}
