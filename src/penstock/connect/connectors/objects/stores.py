"""Opens a store by its URL, lists its objects, and reads them as streams; needs obstore.

Errors of a store are OSErrors here: those with EACCES are for good, the others may pass.
"""

from __future__ import annotations

import datetime
import errno
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from penstock.connect.connectors.formats.items import Stream
from penstock.connect.connectors.objects import definition as keys
from penstock.connect.connectors.objects.urls import client_options, store_url
from penstock.connect.errors import ConfigInvalid
from penstock.extras import needs_extra

if TYPE_CHECKING:
    from obstore.store import ObjectStore

with needs_extra("objects", "penstock.connect.connectors.objects"):
    import obstore
    from obstore import exceptions
    from obstore.store import from_url

_CHUNK_BYTES: Final = 4 << 20
_RETRIES: Final = {"max_retries": 2, "retry_timeout": datetime.timedelta(seconds=10)}
"""The client's own retries: few, because the worker calls again too."""
_FOR_GOOD: Final = (
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.NotSupportedError,
    exceptions.UnknownConfigurationKeyError,
)


class StoredObject(NamedTuple):
    """An object as the store lists it; `tag` changes with its content."""

    name: str
    size: int
    modified: datetime.datetime
    tag: str


class Store:
    """The objects below one URL."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Raise ConfigInvalid if the URL or an option is not one of a store."""
        self.url = store_url(config)
        options = client_options(config, self.url)
        more: dict[str, Any] = {} if self.url.startswith("file:") else {"retry_config": _RETRIES}
        if options:
            more["config"] = options
        if str(config[keys.ENDPOINT]).startswith("http:"):
            more["client_options"] = {"allow_http": True}
        try:
            self._store: ObjectStore = from_url(self.url, **more)
        except (exceptions.BaseError, ValueError, OSError) as error:
            raise ConfigInvalid(f"the store {self.url} cannot be opened: {error}") from error

    def objects(self, after: str) -> list[StoredObject]:
        """Return all objects whose names come after one. Raises OSError."""
        found = []
        try:
            for chunk in obstore.list(self._store, offset=after or None):
                for each in chunk:
                    modified = each["last_modified"]
                    tag = each["e_tag"] or f"{each['size']}-{modified.isoformat()}"
                    found.append(StoredObject(each["path"], each["size"], modified, tag))
        except exceptions.BaseError as error:
            raise as_os_error(error, self.url) from error
        return found

    def open(self, found: StoredObject) -> Stream:
        """Open an object as it was listed. Reads raise FileNotFoundError once it is gone or has changed."""
        return cast(Stream, io.BufferedReader(_ObjectStream(self._store, found), _CHUNK_BYTES))


class _ObjectStream(io.RawIOBase):
    """The bytes of one object, of which each read requests a part."""

    def __init__(self, store: ObjectStore, found: StoredObject) -> None:
        self._store = store
        self._found = found
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._found.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        end = min(self._at + len(view), self._found.size)
        if end <= self._at:
            return 0
        options: dict[str, Any] = {"range": (self._at, end)}
        if self._found.tag.startswith('"') or not self._found.tag.startswith(f"{self._found.size}-"):
            options["if_match"] = self._found.tag
        try:
            data = memoryview(obstore.get(self._store, self._found.name, options=options).bytes())
        except exceptions.BaseError as error:
            raise as_os_error(error, self._found.name) from error
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def as_os_error(error: exceptions.BaseError, what: str) -> OSError:
    """Return a store's error as an OSError, whose number tells what to do about it."""
    text = str(error).strip().partition("\n")[0]
    if isinstance(error, exceptions.NotFoundError | exceptions.PreconditionError):
        return FileNotFoundError(errno.ENOENT, f"the object is gone or has changed: {text}", what)
    if isinstance(error, _FOR_GOOD):
        return PermissionError(errno.EACCES, text, what)
    return OSError(errno.EIO, text, what)
