"""Directories by the names that Spark uses for them, accessed through Arrow's file systems.

Spark reaches a checkpoint through Hadoop's file systems, and this package through pyarrow's: Hadoop's
``s3a://`` is ``s3://`` here. Credentials come from the environment of the process, as pyarrow documents for
each file system.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyarrow import fs

from penstock.client.settings import ConfigError

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
_KNOWN: Final = ("abfs", "abfss", "file", "gs", "hdfs", "s3", "viewfs")


class Location(NamedTuple):
    """A directory or file. ``uri`` names it in errors and to other processes."""

    uri: str
    filesystem: fs.FileSystem
    path: str

    @classmethod
    def open(cls, uri: str, option: str) -> Location:
        """Open a location by its URI or path; ``option`` names the setting in errors. Raises ConfigError."""
        scheme, colon, rest = uri.partition(":")
        if not colon or "/" in scheme:
            path = os.path.abspath(uri)
            return cls(path, fs.LocalFileSystem(), path)
        scheme = scheme.lower()
        scheme = _SCHEMES.get(scheme, scheme)
        if scheme not in _KNOWN:
            raise ConfigError(
                f"option '{option}': the sink can't reach {uri!r}: expected a path or a URI with one of the "
                f"schemes {', '.join(sorted({*_KNOWN, *_SCHEMES}))}"
            )
        try:
            filesystem, path = fs.FileSystem.from_uri(f"{scheme}:{rest}")
        except (OSError, ValueError, NotImplementedError) as error:
            raise ConfigError(f"option '{option}': the sink can't reach {uri!r}: {error}") from error
        return cls(uri, filesystem, path)

    @property
    def is_local(self) -> bool:
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def child(self, *names: str) -> Location:
        tail = "/".join(names)
        return Location(f"{self.uri.rstrip('/')}/{tail}", self.filesystem, f"{self.path.rstrip('/')}/{tail}")

    def read(self) -> bytes | None:
        """The content of the file, or None if there is none. Raises OSError."""
        try:
            with self.filesystem.open_input_stream(self.path) as stream:
                data: bytes = stream.readall()
                return data
        except FileNotFoundError:
            return None

    def write(self, data: bytes) -> None:
        """Write the file atomically: write it under another name and rename it. Raises OSError."""
        aside = f"{self.path}.{os.urandom(4).hex()}.tmp"
        self.filesystem.create_dir(os.path.dirname(self.path), recursive=True)
        with self.filesystem.open_output_stream(aside) as stream:
            stream.write(data)
        self.filesystem.move(aside, self.path)

    def names(self) -> Iterator[str]:
        """The names of the entries in the directory; none if it doesn't exist. Raises OSError."""
        selector = fs.FileSelector(self.path, allow_not_found=True)
        for info in self.filesystem.get_file_info(selector):
            yield info.base_name

    def remove(self) -> None:
        """Delete the directory and everything in it, if it exists. Raises OSError."""
        try:
            self.filesystem.delete_dir(self.path)
        except FileNotFoundError:
            return

    def remove_file(self) -> None:
        """Delete the file, if it exists. Raises OSError."""
        try:
            self.filesystem.delete_file(self.path)
        except FileNotFoundError:
            return
