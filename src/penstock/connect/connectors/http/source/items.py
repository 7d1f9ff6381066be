"""The items of an answer, and the values of each that offsets are made of."""

from __future__ import annotations

import datetime
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.connect.connectors.http.source.definition import pairs_of
from penstock.connect.data.json_text import MISSING, encoded, only_value, text_of
from penstock.connect.errors import ConnectError

KEY: Final = "key"
TIMESTAMP: Final = "timestamp"
_SECONDS_MAX: Final = 100_000_000_000
"""Numbers below this are seconds since 1970, and others milliseconds: as seconds it is the year 5138."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of an answer: its value, what offsets keep of it, and its time if it has one."""

    value: Any
    offset: Mapping[str, Any]
    millis: int | None

    @property
    def mark(self) -> str:
        """A short text that tells this item from others: of its offset if that has a key, or else of all.

        Items of one key may be several, such as the events of a customer, so the key alone is not enough.
        """
        content = dict(self.offset) if KEY in self.offset else [self.value, dict(self.offset)]
        return hashlib.blake2b(encoded(text_of(content)), digest_size=8).hexdigest()


class Items:
    """Finds the items of answers as a configuration says."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._list: str = config["http.response.list.pointer"]
        self._value: str = config["http.response.record.pointer"]
        self._offsets = pairs_of(config["http.response.record.offset.pointer"])

    def found(self, content: Any) -> list[Item]:
        """Return the items of an answer's content, in its order. Null is none, and an object is one.

        Raises:
            ConnectError: there is nothing at a pointer, or a value is not what an offset can keep.
        """
        found = pointed(content, self._list)
        if found is MISSING:
            raise ConnectError(f"the answer has nothing at {self._list!r} (http.response.list.pointer)")
        if found is None:
            return []
        return [self._item(each) for each in (found if isinstance(found, list) else [found])]

    def _item(self, content: Any) -> Item:
        value = pointed(content, self._value)
        if value is MISSING:
            raise ConnectError(f"an item has nothing at {self._value!r} (http.response.record.pointer)")
        offset = {name: self._plain(name, pointed(content, at)) for name, at in self._offsets.items()}
        millis = millis_of(offset[TIMESTAMP]) if TIMESTAMP in offset else None
        return Item(value, offset, millis)

    def _plain(self, name: str, value: Any) -> Any:
        if value is MISSING or value is None or isinstance(value, list | dict):
            found = "nothing" if value is MISSING else "null" if value is None else "a list or an object"
            raise ConnectError(
                f"an item has {found} at {self._offsets[name]!r}, which http.response.record.offset.pointer "
                f"names {name}: expected a text, a number or a boolean"
            )
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:  # offsets are stored as Java's longs
            raise ConnectError(
                f"an item has a number beyond 64 bits at {self._offsets[name]!r}, which "
                f"http.response.record.offset.pointer names {name}: {value}"
            )
        return value


def parsed_json(body: bytes) -> Any:
    """Parse an answer. Integers keep their value, of any size. Raises ConnectError if it is not JSON."""
    found = only_value(body)
    if found is MISSING:
        raise ConnectError(f"the answer is not JSON: {body[:100].decode(errors='replace')!r}")
    return found


def pointed(content: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901), or MISSING. Both "" and "/" are the whole content."""
    if pointer in ("", "/"):
        return content
    for step in pointer[1:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(content, dict) and name in content:
            content = content[name]
        elif isinstance(content, list) and name.isascii() and name.isdigit() and int(name) < len(content):
            content = content[int(name)]
        else:
            return MISSING
    return content


def millis_of(value: Any) -> int:
    """Return a time in milliseconds since 1970: ISO 8601, or a number of seconds or milliseconds.

    Times without a zone are in UTC.

    Raises:
        ConnectError: it is neither.
    """
    if isinstance(value, str):
        value = parsed_time(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConnectError(f"an item's timestamp is {value!r}, expected ISO 8601 or a number since 1970")
    return round(value * 1000) if abs(value) < _SECONDS_MAX else round(value)


def parsed_time(text: str) -> float | str:
    """Return the number that a text is, or its seconds since 1970; or else the text itself."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return text
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)).timestamp()
