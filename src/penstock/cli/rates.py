"""Parse and format byte counts and rates on the command line."""

import re

from penstock.cli.connection import EXIT_USAGE, fail

_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}


def parse_rate_bytes_per_s(text: str) -> int:
    """Parse a rate such as `50MB`, `50MiB/s` or `50000000` into bytes per second, at least 1."""
    match = re.fullmatch(r"(\d+)\s*([KMG]I?)?B?(?:/S)?", text.strip().upper())
    rate = int(match[1]) * _UNITS[match[2] or ""] if match is not None else 0
    if rate < 1:
        fail(f"expected bytes a second such as 50MB or 800KiB, found {text!r}", EXIT_USAGE)
    return rate


def shown_bytes(count: float) -> str:
    """Format a byte count as `12.3 MB`, in powers of ten."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
