"""The rules between the configs of the log cleaner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.metadata.configs.definition import InvalidConfig

if TYPE_CHECKING:
    from penstock.metadata.configs.broker_config import BrokerConfig

_THREADS: Final = "log.cleaner.threads"
_MEMORY: Final = "log.cleaner.dedupe.buffer.size"
_MEMORY_OF_A_THREAD_MIN: Final = 1 << 20


def check_cleaner_memory(config: BrokerConfig) -> None:
    """Raise InvalidConfig if the key map of a thread would have a mebibyte or less."""
    threads = config.get_int(_THREADS)
    if threads and config.get_int(_MEMORY) // threads <= _MEMORY_OF_A_THREAD_MIN:
        raise InvalidConfig(_MEMORY, f"{_MEMORY} must be at least 1MB per cleaner thread.")


def check_cleaner_change(now: BrokerConfig, wanted: BrokerConfig) -> None:
    """Raise InvalidConfig if a running cleaner cannot take the change; threads at most double or halve."""
    threads, new_threads = now.get_int(_THREADS), wanted.get_int(_THREADS)
    if (threads, now[_MEMORY]) == (new_threads, wanted[_MEMORY]):
        return
    if new_threads < 1:
        raise InvalidConfig(_THREADS, "Log cleaner threads should be at least 1")
    check_cleaner_memory(wanted)
    problem = ""
    if new_threads < threads // 2:
        problem = "reduced to less than half"
    elif new_threads > threads * 2:
        problem = "increased to more than double"
    if problem:
        raise InvalidConfig(_THREADS, f"Log cleaner threads cannot be {problem} the current value {threads}")
