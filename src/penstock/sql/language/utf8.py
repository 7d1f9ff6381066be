"""UTF-8 as Java encodes strings to it."""

from __future__ import annotations


def utf8(text: str) -> bytes:
    """Encode a string. Half of a pair of surrogates, which functions can cut off, becomes a question mark."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace")
