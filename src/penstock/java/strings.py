"""Java's String: its hash code, its length and its order, which count UTF-16 code units."""

import struct
from functools import lru_cache

__all__ = ["hash_code", "utf16", "utf16_length"]


@lru_cache(1 << 16)
def hash_code(text: str) -> int:
    """``String.hashCode()``: a signed 32-bit polynomial over the UTF-16 code units."""
    encoded = utf16(text)
    value = 0
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def utf16(text: str) -> bytes:
    """Return a sort key with the order of ``String.compareTo``."""
    return text.encode("utf-16-be", "surrogatepass")


def utf16_length(text: str) -> int:
    """``String.length()``: characters outside the basic plane count twice."""
    return len(text) if text.isascii() else len(utf16(text)) // 2
