"""The compact form of a JSON Web Token (RFC 7515): three parts in base64url, separated by dots.

Everything here happens before a signature is checked, on texts of clients that are not authenticated. Sizes
are limited, and what two readers could understand differently is refused: names that an object has twice,
NaN, characters that base64url does not have, and bits beyond the last byte.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

MAX_TOKEN_CHARS: Final = 65_536
"""The longest token that is read. Tokens with hundreds of groups have some 20,000 characters."""

MAX_HEADER_CHARS: Final = 16_384
"""The longest header, which may include a chain of certificates; all other headers are a tenth of that."""

_PARTS: Final = 3
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]*")

JsonObject: TypeAlias = Mapping[str, Any]


class InvalidToken(Exception):
    """A token is refused. The message is for the log; it shows no token."""


class CompactToken(NamedTuple):
    """The parts of a token, of which nothing is verified yet."""

    text: str
    header: JsonObject
    claims: JsonObject
    signature: str

    def __repr__(self) -> str:
        return f"CompactToken({self.header})"


def parse_compact(text: str) -> CompactToken:
    """Take a token apart. Raises InvalidToken."""
    text = text.strip()
    if len(text) > MAX_TOKEN_CHARS:
        raise InvalidToken(f"the token has {len(text)} characters, expected at most {MAX_TOKEN_CHARS}")
    parts = text.split(".", _PARTS)
    if len(parts) != _PARTS:
        count = text.count(".") + 1
        raise InvalidToken(f"the token has {count} parts, expected {_PARTS}: header, claims and signature")
    header, claims, signature = parts
    if len(header) > MAX_HEADER_CHARS:
        raise InvalidToken(f"the header has {len(header)} characters, expected at most {MAX_HEADER_CHARS}")
    return CompactToken(text, _json(header, "header"), _json(claims, "claims"), signature)


def from_base64url(text: str) -> bytes:
    """Decode base64url without padding. Raises ValueError, also for a second text of the same bytes."""
    if not _ALPHABET.fullmatch(text):
        raise ValueError("characters outside of base64url")
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise ValueError("bits beyond the last byte")
    return data


def parse_json_object(text: bytes | str) -> JsonObject:
    """Parse a JSON object that has each name once. Raises ValueError."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _json(part: str, name: str) -> JsonObject:
    try:
        return parse_json_object(from_base64url(part).decode())
    except ValueError as error:  # what json and UTF-8 raise is one, too; their messages may show parts
        reason = str(error) if type(error) is ValueError else "it is no JSON"
        raise InvalidToken(f"the {name} cannot be read: {reason}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it has a name twice")
    return found


def _refuse_constant(_text: str) -> NoReturn:
    raise ValueError("it has a number that JSON does not know")
