"""Queries in the form of URLs, and answers in the form of JSON.

    /stores/{name}/keys/{key}               a value; of windows ?start_ms=, of versions ?as_of_ms=
    /stores/{name}/keys/{key}/windows       a key's windows or sessions: ?from_ms=&to_ms=&reverse=
    /stores/{name}/keys/{key}/versions      a key's versions: ?from_ms=&to_ms=
    /stores/{name}/entries                  a page in key order: ?first=&last= or ?prefix=, ?reverse=;
                                            of windows and sessions ?from_ms=&to_ms=
    /stores/{name}/count                    the approximate number of entries

A page has at most ``limit`` entries. To continue, pass the previous page's ``next`` as ``after``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from penstock.topology.serdes import Serde
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec, VersionedSpec
from penstock.topology.stores.window_stores import SessionSpec, WindowSpec
from penstock.views.catalog import ViewedStore
from penstock.views.errors import InvalidQuery, UnsupportedQuery
from penstock.views.position import Position
from penstock.views.reads import (
    Fetch,
    GetValue,
    GetVersion,
    GetVersions,
    GetWindow,
    Read,
    Row,
    scan_of,
)
from penstock.views.stores import serialized

PAGE: Final = 100
PAGE_MAX: Final = 1_000
TIMEOUT_MS: Final = 5_000
TIMEOUT_MAX_MS: Final = 60_000
_TIME_MAX: Final = (1 << 63) - 1

_KIND_NAMES: Final[Mapping[type, str]] = {
    KeyValueSpec: "key-value",
    VersionedSpec: "versioned",
    WindowSpec: "window",
    SessionSpec: "session",
}

_FROM_TEXT: Final[Mapping[str, Callable[[str], Any]]] = {
    "string": str,
    "integer": int,
    "long": int,
    "double": float,
    "json": lambda text: msgspec.json.decode(text.encode()),
    "raw": str.encode,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The query that a request contains.

    Attributes:
        read: the read operation; None: count the entries.
        is_single: whether the answer is one entry or none, and not a page.
        encoding: ``plain`` or ``base64``, for the key in the URL and for keys and values in the answer.
        partitions: the partitions to read, as another node requests them; None: all.
    """

    store: ViewedStore
    read: Read | None
    is_single: bool
    encoding: str
    at_least: Position
    timeout_s: float
    partitions: tuple[int, ...] | None


def kind_of(spec: StoreSpec) -> str:
    return _KIND_NAMES[type(spec)]


def asked_by(
    store: ViewedStore, segments: list[str], parameters: Mapping[str, str], at_least: str | None
) -> Asked:
    """Parse a query. ``segments`` is the path behind the store's name, still encoded.

    Raises InvalidQuery, UnsupportedQuery.
    """
    given = _Parameters(parameters)
    encoding = given.one_of("encoding", ("plain", "base64"))
    read: Read | None
    is_single = False
    match segments:
        case ["keys", key]:
            read, is_single = _value(store, _key(store, key, encoding), given), True
        case ["keys", key, "windows"]:
            read = _windows(store, _key(store, key, encoding), given)
        case ["keys", key, "versions"]:
            read = _versions(store, _key(store, key, encoding), given)
        case ["entries"]:
            read = _entries(store, encoding, given)
        case ["count"]:
            read = None
        case _:
            raise InvalidQuery(
                f"a store has no path /{'/'.join(segments)}: expected keys/<key>, "
                "keys/<key>/windows, keys/<key>/versions, entries or count"
            )
    timeout_ms = given.number("timeout_ms", 0, TIMEOUT_MAX_MS, TIMEOUT_MS)
    position = given.text("at_least") or at_least
    partitions = given.numbers("partitions")
    given.finish()
    return Asked(
        store,
        read,
        is_single,
        encoding,
        Position() if position is None else Position.from_json(position),
        timeout_ms / 1000,
        partitions,
    )


def _value(store: ViewedStore, key: bytes, given: _Parameters) -> Read:
    spec = store.spec
    if isinstance(spec, KeyValueSpec):
        return GetValue(key)
    if isinstance(spec, VersionedSpec):
        return GetVersion(key, given.optional_number("as_of_ms"))
    if isinstance(spec, WindowSpec) and not spec.duplicates:
        start_ms = given.optional_number("start_ms")
        if start_ms is None:
            raise InvalidQuery(
                f"store {store.name} keeps windows: expected start_ms, or …/keys/<key>/windows for all"
            )
        return GetWindow(key, start_ms)
    raise UnsupportedQuery(
        f"a key of the {kind_of(spec)} store {store.name} has several values: use …/keys/<key>/windows"
    )


def _windows(store: ViewedStore, key: bytes, given: _Parameters) -> Read:
    if not isinstance(store.spec, WindowSpec | SessionSpec):
        raise UnsupportedQuery(f"the {kind_of(store.spec)} store {store.name} has no windows")
    from_ms, to_ms = given.number("from_ms", 0, _TIME_MAX, 0), given.optional_number("to_ms")
    return Fetch(key, from_ms, to_ms, given.flag("reverse"), given.limit(), given.token("after"))


def _versions(store: ViewedStore, key: bytes, given: _Parameters) -> Read:
    if not isinstance(store.spec, VersionedSpec):
        raise UnsupportedQuery(f"the {kind_of(store.spec)} store {store.name} has no versions")
    return GetVersions(key, given.optional_number("from_ms"), given.optional_number("to_ms"), given.limit())


def _entries(store: ViewedStore, encoding: str, given: _Parameters) -> Read:
    spec = store.spec
    if isinstance(spec, VersionedSpec):
        raise UnsupportedQuery(f"the versioned store {store.name} can only be queried by key: …/keys/<key>")
    first, last, prefix = (given.text(name) for name in ("first", "last", "prefix"))
    if isinstance(spec, WindowSpec | SessionSpec) and (first or last or prefix):
        raise UnsupportedQuery(f"ranges of keys of the {kind_of(spec)} store {store.name} are not supported")
    if prefix is not None and (first is not None or last is not None):
        raise InvalidQuery("expected first and last, or prefix, not both")
    return scan_of(
        spec,
        first=None if first is None else _key(store, first, encoding, quoted=False),
        last=None if last is None else _key(store, last, encoding, quoted=False),
        prefix=None if prefix is None else _prefix(prefix, encoding),
        reverse=given.flag("reverse"),
        limit=given.limit(),
        after_place=given.token("after"),
        from_ms=given.number("from_ms", 0, _TIME_MAX, 0),
        to_ms=given.optional_number("to_ms"),
    )


def _key(store: ViewedStore, text: str, encoding: str, *, quoted: bool = True) -> bytes:
    if quoted:
        text = unquote(text)
    if encoding == "base64":
        return from_base64(text, "the key")
    serde: Serde[Any] = store.spec.key
    read = _FROM_TEXT.get(serde.name)
    if read is None:
        raise InvalidQuery(
            f"keys of store {store.name} have the serde {serde.name}, which has no text form: expected "
            "the key's bytes in base64, with encoding=base64"
        )
    try:
        key = read(text)
    except ValueError:
        raise InvalidQuery(f"{text!r} is no key of store {store.name}, whose serde is {serde.name}") from None
    return serialized(serde, key, store.name)


def _prefix(text: str, encoding: str) -> bytes:
    return from_base64(text, "the prefix") if encoding == "base64" else text.encode()


class _Parameters:
    """The query parameters of a URL. Each is read once, and a parameter that was not read is an error."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._left = dict(given)

    def text(self, name: str) -> str | None:
        return self._left.pop(name, None)

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """Return the parameter, one of ``choices``; the first choice is the default."""
        found = self._left.pop(name, choices[0])
        if found not in choices:
            raise InvalidQuery(f"{name}={found!r}: expected {' or '.join(choices)}")
        return found

    def flag(self, name: str) -> bool:
        return self.one_of(name, ("false", "true")) == "true"

    def number(self, name: str, least: int, most: int, default: int) -> int:
        found = self._left.pop(name, None)
        if found is None:
            return default
        if not found.isascii() or not found.isdigit() or not least <= int(found) <= most:
            raise InvalidQuery(f"{name}={found!r}: expected a whole number from {least} to {most}")
        return int(found)

    def optional_number(self, name: str) -> int | None:
        return self.number(name, 0, _TIME_MAX, 0) if name in self._left else None

    def limit(self) -> int:
        return self.number("limit", 1, PAGE_MAX, PAGE)

    def token(self, name: str) -> bytes | None:
        found = self._left.pop(name, None)
        return None if found is None else from_base64(found, name)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        found = self._left.pop(name, None)
        if found is None:
            return None
        if not all(part.isascii() and part.isdigit() for part in found.split(",")):
            raise InvalidQuery(f"{name}={found!r}: expected whole numbers, separated by commas")
        return tuple(map(int, found.split(",")))

    def finish(self) -> None:
        if self._left:
            raise InvalidQuery(f"unknown parameters for this query: {', '.join(sorted(self._left))}")


def entry_of(row: Row, spec: StoreSpec, encoding: str) -> dict[str, Any]:
    """Convert a row to a JSON entry."""
    key, value = row.key, row.value
    if encoding == "base64":
        key, value = to_base64(spec.key.serialize(key)), to_base64(spec.value.serialize(value))
    entry: dict[str, Any] = {"key": key, "value": value}
    if row.timestamp_ms is not None:
        entry["timestamp_ms"] = row.timestamp_ms
    if row.window is not None:
        entry["window"] = {"start_ms": row.window.start_ms, "end_ms": row.window.end_ms}
    if isinstance(spec, VersionedSpec):
        entry["valid_to_ms"] = row.valid_to_ms
    return entry


def to_base64(data: bytes) -> str:
    """Encode with - and _, and without padding, so that the result can be part of a URL."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64(text: str, what: str) -> bytes:
    """Decode base64. Raises InvalidQuery."""
    try:
        plain = text.replace("-", "+").replace("_", "/")
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidQuery(f"{what} {text[:80]!r} is not base64") from None


def encode(found: Mapping[str, Any]) -> bytes:
    """Encode as JSON; NaN and infinities, which JSON lacks, become null. Raises UnsupportedQuery."""
    try:
        return msgspec.json.encode(found, enc_hook=_refuse)
    except TypeError as error:
        raise UnsupportedQuery(f"{error}: use encoding=base64 to get the bytes") from None


def _refuse(value: object) -> Any:
    raise TypeError(f"a {type(value).__name__} has no JSON form")
