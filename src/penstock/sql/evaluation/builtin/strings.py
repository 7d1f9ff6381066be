"""Functions on strings and bytes."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.sql.evaluation.builtin.nulls import strict
from penstock.sql.language import types
from penstock.sql.language.types import SqlType

_JAVA_SPACE: Final = "".join(map(chr, range(33)))


def _chr(code: Any) -> str | None:
    if isinstance(code, int):
        return chr(code) if 0 <= code <= 0x10FFFF else None
    units = re.fullmatch(r"(\\u[0-9A-Fa-f]{4})+", code)
    if units is None:
        return None
    return bytes.fromhex(code.replace("\\u", "")).decode("utf-16-be")


def _concat(*values: Any) -> Any:
    there = [value for value in values if value is not None]
    empty: Any = b"" if there and isinstance(there[0], bytes) else ""
    return empty.join(there)


def _concat_ws(separator: Any, *values: Any) -> Any:
    if separator is None:
        return None
    return separator.join([value for value in values if value is not None])


def _elt(number: int | None, *values: str) -> str | None:
    return values[number - 1] if number is not None and 1 <= number <= len(values) else None


def _field(wanted: str | None, *values: str) -> int:
    return values.index(wanted) + 1 if wanted is not None and wanted in values else 0


def to_bytes(text: str, encoding: str) -> bytes:
    match encoding.lower():
        case "hex":
            return _of_hex(text)
        case "utf8":
            return text.encode()
        case "ascii":
            return text.encode("ascii", errors="replace")
        case "base64":
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    raise ValueError(f"found the encoding {encoding}, expected hex, utf8, ascii or base64")


def from_bytes(data: bytes, encoding: str) -> str:
    match encoding.lower():
        case "hex":
            return data.hex().upper()
        case "utf8":
            return data.decode(errors="replace")
        case "ascii":
            return data.decode("ascii", errors="replace")
        case "base64":
            return base64.b64encode(data).decode()
    raise ValueError(f"found the encoding {encoding}, expected hex, utf8, ascii or base64")


def _of_hex(digits: str) -> bytes:
    if re.fullmatch("([0-9A-Fa-f]{2})*", digits) is None:
        raise ValueError(f"found {digits!r}, expected an even number of hexadecimal digits")
    return bytes.fromhex(digits)


def _encode(text: str, source: str, target: str) -> str:
    """ENCODE. Hex input may have the form 0x… (where a leading zero may be missing) or X'…'.

    Characters that are invalid in base64 are ignored.
    """
    source, target = source.lower(), target.lower()
    if source == target:
        raise ValueError(f"found {source} twice, expected two encodings")
    if source == "hex" and text.startswith("0x"):
        text = text[2:] if len(text) % 2 == 0 else f"0{text[2:]}"
    elif source == "hex" and re.fullmatch("[Xx]'.*'", text):
        text = text[2:-1]
    elif source == "base64":
        text = re.sub("[^A-Za-z0-9+/]", "", text.replace("-", "+").replace("_", "/"))
        text = text[:-1] if len(text) % 4 == 1 else text
    made = from_bytes(to_bytes(text, source), target)
    return made.lower() if target == "hex" else made


def _initcap(text: str) -> str:
    return re.sub(r"[^\s]+", lambda word: word.group()[:1].upper() + word.group()[1:].lower(), text)


def _instr(text: str, wanted: str, position: int = 1, occurrence: int = 1) -> int:
    if position == 0 or occurrence < 1:
        return 0
    if position > 0:
        at = position - 2
        for _ in range(occurrence):
            at = text.find(wanted, at + 1)
            if at < 0:
                return 0
        return at + 1
    end = len(text) + position + len(wanted)
    for _ in range(occurrence):
        at = text.rfind(wanted, 0, max(end, 0))
        if at < 0:
            return 0
        end = at + len(wanted) - 1
    return at + 1


def _padded(text: Any, length: int, padding: Any, *, left: bool) -> Any:
    if length < 0 or not padding:
        return None
    missing = length - len(text)
    if missing <= 0:
        return text[:length]
    fill = (padding * (missing // len(padding) + 1))[:missing]
    return fill + text if left else text + fill


_MASKS: Final = ("X", "x", "n", "-")


def _masker(masks: Sequence[str | None]) -> Callable[[str], str]:
    upper, lower, digit, other = masks or _MASKS

    def masked(text: str) -> str:
        made = []
        for letter in text:
            if letter.isupper():
                mask = upper
            elif letter.islower():
                mask = lower
            elif letter.isdigit():
                mask = digit
            else:
                mask = other
            made.append(letter if mask is None else mask)
        return "".join(made)

    return masked


def _mask(text: str | None, *masks: str | None) -> str | None:
    return None if text is None else _masker(masks)(text)


def _mask_part(
    part: Callable[[str, int], tuple[str, str, str]],
) -> Callable[..., str | None]:
    """Build a MASK function. ``part(text, n)`` splits a text into kept, masked and kept characters."""

    def masked(text: str | None, count: int | None, *masks: str | None) -> str | None:
        if text is None or count is None:
            return None
        if count < 0:
            raise ValueError(f"found {count} characters to mask, expected 0 or more")
        before, inside, behind = part(text, count)
        return before + _masker(masks)(inside) + behind

    return masked


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
    return [text[place : place + 1] for place in range(len(text))] or [text]


def _split_to_map(text: str, entries: str, keys: str) -> dict[str, str] | None:
    if not entries or not keys:
        return None
    pairs = [entry.split(keys) for entry in text.split(entries) if entry]
    return {pair[0]: pair[1] for pair in pairs if len(pair) > 1}


def _substring(text: Any, position: int, length: int | None = None) -> Any:
    size = len(text)
    start = position - 1 if position > 0 else size + position if position < 0 else 0
    start = min(max(start, 0), size)
    end = size if length is None else min(start + max(length, 0), size)
    return text[start:end]


def _number_from_bytes(kind: str, size: int, name: str) -> Callable[..., Any]:
    def read(data: bytes, order: str = "BIG_ENDIAN") -> Any:
        if len(data) != size:
            raise ValueError(f"found {len(data)} bytes, expected the {size} of {name}")
        marks = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}
        if order.upper() not in marks:
            raise ValueError(f"found the order {order}, expected BIG_ENDIAN or LITTLE_ENDIAN")
        return struct.unpack(f"{marks[order.upper()]}{kind}", data)[0]

    return strict(read)


def _uuid(data: bytes | None = b"") -> str | None:
    if data is None or len(data) not in (0, 16):
        return None
    return str(uuid.UUID(bytes=data) if data else uuid.uuid4())


def _length(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    if given[0] == types.BYTES:
        return strict(len)
    return strict(lambda text: len(text.encode("utf-16-le")) // 2)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "CHR": strict(_chr),
    "CONCAT": _concat,
    "CONCAT_WS": _concat_ws,
    "ELT": _elt,
    "ENCODE": strict(_encode),
    "FIELD": _field,
    "FROM_BYTES": strict(from_bytes),
    "INITCAP": strict(_initcap),
    "INSTR": strict(_instr),
    "LCASE": strict(str.lower),
    "LPAD": strict(lambda text, length, padding: _padded(text, length, padding, left=True)),
    "MASK": _mask,
    "MASK_KEEP_LEFT": _mask_part(lambda text, count: (text[:count], text[count:], "")),
    "MASK_KEEP_RIGHT": _mask_part(_kept_right),
    "MASK_LEFT": _mask_part(lambda text, count: ("", text[:count], text[count:])),
    "MASK_RIGHT": _mask_part(_masked_right),
    "MD5": strict(lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()),
    "REPLACE": strict(lambda text, old, new: text.replace(old, new)),
    "RPAD": strict(lambda text, length, padding: _padded(text, length, padding, left=False)),
    "SPLIT": strict(_split),
    "SPLIT_TO_MAP": strict(_split_to_map),
    "SUBSTRING": strict(_substring),
    "TO_BYTES": strict(to_bytes),
    "TRIM": strict(lambda text: text.strip(_JAVA_SPACE)),
    "UCASE": strict(str.upper),
    "UUID": _uuid,
    "BIGINT_FROM_BYTES": _number_from_bytes("q", 8, "a BIGINT"),
    "DOUBLE_FROM_BYTES": _number_from_bytes("d", 8, "a DOUBLE"),
    "INT_FROM_BYTES": _number_from_bytes("i", 4, "an INTEGER"),
}
BY_TYPE: Final[dict[str, Callable[[Sequence[Any], SqlType], Callable[..., Any]]]] = {"LEN": _length}
