"""Kafka's 16-byte ids of topics, directories and clients, and their text form."""

from __future__ import annotations

import base64

ZERO_UUID = bytes(16)
"""Stands for a missing id."""


def uuid_to_text(uuid: bytes) -> str:
    """Encode an id as 22 characters of unpadded URL-safe base64, as in Kafka's files and tools."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_from_text(text: str) -> bytes:
    """Decode an id, as the inverse of ``uuid_to_text``. Raises ValueError if it does not have 16 bytes."""
    uuid = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(uuid) != 16:
        raise ValueError(f"{text!r} stands for {len(uuid)} bytes, an id has 16")
    return uuid
