"""The topic configs that storage applies to a topic's logs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

_DAY_MS: Final = 24 * 60 * 60 * 1000
_NEVER_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The configs of one topic, under Kafka's names (dots become underscores) and with Kafka's defaults.

    -1 means no limit for `retention_ms` and `retention_bytes`. A log accepts a new config at any time.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    preallocate: bool = False
    flush_messages: int = _NEVER_MS
    flush_ms: int = _NEVER_MS
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    file_delete_delay_ms: int = 60_000
    cleanup_policy: frozenset[str] = frozenset(("delete",))
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _NEVER_MS
    min_cleanable_dirty_ratio: float = 0.5
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = _NEVER_MS
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The longest time before a roll; a compacted log rolls in time for its compaction lag (KIP-354)."""
        if self.segment_ms <= self.max_compaction_lag_ms or not self.compacts:
            return self.segment_ms
        return self.max_compaction_lag_ms

    def segment_jitter(self, rng: random.Random) -> int:
        """The milliseconds by which a segment rolls early, so that many logs do not roll at once."""
        jitter_ms = min(self.segment_jitter_ms, self.segment_ms)
        return rng.randrange(jitter_ms) if jitter_ms > 0 else 0

    @classmethod
    def from_properties(cls, properties: Mapping[str, object], base: LogConfig | None = None) -> LogConfig:
        """Overlay topic configs by their Kafka names, as text or typed, on `base` or Kafka's defaults.

        Names that storage does not use are ignored: the table of configs validates names and ranges.
        Raises ValueError, naming the config, if a value is not of its type.
        """
        base = base or _DEFAULTS
        changes = {
            field.name: _typed(name, properties[name], getattr(base, field.name))
            for field in fields(cls)
            if (name := field.name.replace("_", ".")) in properties
        }
        return replace(base, **changes)  # type: ignore[arg-type]


def _typed(name: str, value: object, like: object) -> object:
    """Convert `value` to the type of the default `like`."""
    if isinstance(like, frozenset):
        return frozenset(_listed(value))
    if not isinstance(value, str):
        return value
    text = value.strip()
    if isinstance(like, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name}: expected true or false, found {value!r}")
        return text.lower() == "true"
    if isinstance(like, int | float):
        try:
            return type(like)(text)
        except ValueError:
            raise ValueError(f"{name}: expected a number, found {value!r}") from None
    return text


def _listed(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return (part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, Iterable):
        return (str(part) for part in value)
    raise ValueError(f"cleanup.policy: expected a list, found {value!r}")


_DEFAULTS: Final = LogConfig()
