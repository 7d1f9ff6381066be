"""Functions on URLs. They decide as `java.net.URI` and `java.net.URLDecoder` do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote_plus

from penstock.sql.evaluation.builtin.nulls import strict
from penstock.sql.evaluation.builtin.uris import Uri, parse_uri

_ESCAPES: Final = re.compile("((?:%..)+)", re.DOTALL)
_OCTET: Final = re.compile(r"\+?[0-9A-Fa-f]|-0|[0-9A-Fa-f]{2}")
"""The two characters that Java's `parseInt` accepts after a percent sign."""


def _part(part: Callable[[Uri], Any]) -> Callable[[str], Any]:
    return strict(lambda text: part(parse_uri(text)))


def _parameter(text: str, wanted: str) -> str | None:
    """The value of a parameter of the decoded query; empty if the parameter has none."""
    for pair in (parse_uri(text).query or "").split("&"):
        name, _, value = pair.partition("=")
        if name == wanted:
            return value
    return None


def _encode(text: str) -> str:
    return quote_plus(text, safe="*-._").replace("~", "%7E")


def _decode(text: str) -> str:
    """Decode a parameter. Raises ValueError for a percent sign without two hexadecimal digits."""
    plain, *rest = _ESCAPES.split(text)
    pieces = [_decode_plain(plain, text)]
    for escapes, plain in zip(rest[::2], rest[1::2], strict=True):
        pieces.append(_decode_octets([escapes[at + 1 : at + 3] for at in range(0, len(escapes), 3)], text))
        pieces.append(_decode_plain(plain, text))
    return "".join(pieces)


def _decode_plain(plain: str, text: str) -> str:
    if "%" in plain:
        raise ValueError(f"found {text!r}, expected two hexadecimal digits after each %")
    return plain.replace("+", " ")


def _decode_octets(octets: list[str], text: str) -> str:
    if not all(map(_OCTET.fullmatch, octets)):
        raise ValueError(f"found {text!r}, expected two hexadecimal digits after each %")
    return bytes(int(each, 16) for each in octets).decode(errors="replace")


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "URL_DECODE_PARAM": strict(_decode),
    "URL_ENCODE_PARAM": strict(_encode),
    "URL_EXTRACT_FRAGMENT": _part(lambda uri: uri.fragment),
    "URL_EXTRACT_HOST": _part(lambda uri: uri.host),
    "URL_EXTRACT_PARAMETER": strict(_parameter),
    "URL_EXTRACT_PATH": _part(lambda uri: uri.path),
    "URL_EXTRACT_PORT": _part(lambda uri: uri.port),
    "URL_EXTRACT_PROTOCOL": _part(lambda uri: uri.scheme),
    "URL_EXTRACT_QUERY": _part(lambda uri: uri.query),
}
