"""The broker configs of the log cleaner."""

from __future__ import annotations

from typing import Final, NamedTuple

UNLIMITED_BYTES_PER_SECOND: Final = 1.7976931348623157e308


class CleanerConfig(NamedTuple):
    """The `log.cleaner.*` configs under Kafka's names without that prefix, and with Kafka's defaults."""

    enable: bool = True
    threads: int = 1
    dedupe_buffer_size: int = 128 << 20
    io_buffer_size: int = 512 << 10
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = UNLIMITED_BYTES_PER_SECOND
    backoff_ms: int = 15_000
