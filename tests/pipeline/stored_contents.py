"""The contents of a directory's files, for a search for what must not be in any of them."""

import zlib
from base64 import b85decode
from collections.abc import Iterator
from pathlib import Path


def contents_of(directory: Path) -> Iterator[tuple[Path, bytes]]:
    """Each file with its content; the plans of a host's members also as they are unpacked."""
    for file in directory.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            yield file, content
            if "members" in file.parts and file.suffix != ".crc":
                yield file, zlib.decompress(b85decode(content))
