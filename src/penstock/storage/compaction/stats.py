"""Statistics of one clean."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CleanerStats:
    bytes_read: int = 0
    bytes_written: int = 0
    messages_read: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    """Records without a key, which a compacted log cannot keep."""
    buffer_utilization: float = 0.0
    elapsed_s: float = 0.0
