"""The address of a server's listener as a URL, as Confluent's property `listeners` has it."""

from __future__ import annotations

from typing import NamedTuple, Self
from urllib.parse import urlsplit


class Listener(NamedTuple):
    """A listener: http or https, and its address. Without a port in the URL, ``port`` is None."""

    scheme: str
    host: str
    port: int | None

    @classmethod
    def parse(cls, value: str) -> Self:
        """Parse the URL of one listener. Raises ValueError with what was expected."""
        try:
            parts = urlsplit(value)
            port = parts.port
            is_one = port is None or "," not in value
        except ValueError:
            is_one, port = False, None
        if not is_one or parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise ValueError("one http://HOST:PORT or https://HOST:PORT")
        return cls(parts.scheme, parts.hostname, port)


def url(scheme: str, host: str, port: int) -> str:
    """Return the URL of a server at this address."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
