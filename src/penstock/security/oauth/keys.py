"""The current key set of an issuer, from a file or over HTTPS.

Keys over HTTPS are fetched by a thread: at the start, then each `sasl.oauthbearer.jwks.endpoint.refresh.ms`,
and earlier if a token names a key that is not known. Everybody can make such tokens, so that this must not
become a way to flood the issuer. As in Kafka, a missing key causes one fetch a minute. Kafka remembers 16 of
them, and an attacker who invents a new one each time gets a fetch for each; here one fetch in ten seconds is
the most that missing keys can cause.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from penstock.security.oauth.errors import EndpointFailed, KeysUnavailable
from penstock.security.oauth.http import Backoff
from penstock.security.tokens.keys import InvalidKeys, KeySet

log = logging.getLogger(__name__)

_SAME_KEY_APART_S: Final = 60.0
_FETCHES_APART_S: Final = 10.0
_REMEMBERED_KEYS: Final = 16


class KeySource(Protocol):
    """A source of keys. Its methods may be called by any thread, and do not wait for the network."""

    def start(self) -> None:
        """Get the first keys; this may block. Raises KeysUnavailable."""

    def current(self) -> KeySet:
        """Return the keys of now."""

    def report_missing(self, key_id: str | None) -> None:
        """Note that a token names a key that is not in the set."""

    def close(self) -> None:
        """End what the source has started."""


class FileKeys:
    """The keys of a file, which are read again when the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._keys = KeySet(())

    def start(self) -> None:
        try:
            self._read(self._look())
        except (OSError, InvalidKeys) as error:
            raise KeysUnavailable(f"{self._path}: {error}") from None
        _require_keys(self._keys, str(self._path))

    def current(self) -> KeySet:
        try:
            stamp = self._look()
            if stamp != self._stamp:
                self._read(stamp)
                log.info("keys of tokens read file=%s keys=%d", self._path, len(self._keys))
        except (OSError, InvalidKeys) as error:
            log.warning("keys of tokens not read, the last ones stay file=%s reason=%s", self._path, error)
        return self._keys

    def report_missing(self, key_id: str | None) -> None:
        pass

    def close(self) -> None:
        pass

    def _look(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self, stamp: tuple[int, int, int]) -> None:
        self._stamp = stamp  # also if it cannot be read: then the next change is waited for
        self._keys = KeySet.parse(self._path.read_bytes())


class MissingKeys:
    """Decides whether a missing key is a reason to fetch the set again. ``clock_s`` never goes back."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._asked_at_s: OrderedDict[str, float] = OrderedDict()
        self._last_s = -_FETCHES_APART_S

    def is_reason(self, key_id: str) -> bool:
        """Whether to fetch now; if so, the next time is not before long."""
        now_s = self._clock_s()
        asked_at_s = self._asked_at_s.get(key_id)
        if asked_at_s is not None and now_s < asked_at_s + _SAME_KEY_APART_S:
            return False
        if now_s < self._last_s + _FETCHES_APART_S:
            return False
        self._last_s = self._asked_at_s[key_id] = now_s
        self._asked_at_s.move_to_end(key_id)
        while len(self._asked_at_s) > _REMEMBERED_KEYS:
            self._asked_at_s.popitem(last=False)
        return True


class RemoteKeys:
    """The keys of an endpoint, which a thread follows. ``fetch`` raises EndpointFailed."""

    def __init__(
        self,
        url: str,
        fetch: Callable[[], bytes],
        refresh_ms: int,
        backoff: Backoff,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._fetch = fetch
        self._refresh_s = refresh_ms / 1000
        self._backoff = backoff
        self._missing = MissingKeys(clock_s)
        self._keys = KeySet(())
        self._changed = threading.Condition()
        self._is_wanted = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="jwks", daemon=True)

    def start(self) -> None:
        try:
            keys = self._fetched()
        except (EndpointFailed, InvalidKeys) as error:
            raise KeysUnavailable(str(error)) from None
        _require_keys(keys, self._url)
        self._keys = keys
        log.info("keys of tokens fetched url=%s keys=%d", self._url, len(keys))
        self._thread.start()

    def current(self) -> KeySet:
        return self._keys

    def report_missing(self, key_id: str | None) -> None:
        if key_id is None:
            return
        with self._changed:
            if self._missing.is_reason(key_id):
                self._is_wanted = True
                self._changed.notify()

    def close(self) -> None:
        """End the thread; a fetch that is going on ends by itself."""
        with self._changed:
            self._closed.set()
            self._changed.notify()

    def _follow(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_wanted or self._closed.is_set(), self._refresh_s)
                self._is_wanted = False
            if self._closed.is_set():
                return
            try:
                self._keys = self._fetched()
                log.info("keys of tokens fetched url=%s keys=%d", self._url, len(self._keys))
            except (EndpointFailed, InvalidKeys) as error:
                log.warning("keys of tokens not fetched, the last ones stay reason=%s", error)

    def _fetched(self) -> KeySet:
        return KeySet.parse(self._backoff.attempt(self._fetch, sleep=self._closed.wait))


def _require_keys(keys: KeySet, source: str) -> None:
    if not len(keys):
        raise KeysUnavailable(f"{source} has no key that verifies signatures")
