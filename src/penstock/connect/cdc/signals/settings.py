"""The configuration of signals and incremental snapshots, with Debezium's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CONSUMER_PREFIX: Final = "signal.consumer."


@dataclass(frozen=True)
class SignalSettings:
    """The choices; `table` is the signal table as ``schema.table``, or empty."""

    table: str
    channels: frozenset[str]
    topic: str
    bootstrap_servers: str
    group_id: str
    consumer: Mapping[str, str]
    file: str
    poll_s: float
    chunk_size: int
    deletes_watermarks: bool
    is_read_only: bool

    @staticmethod
    def of(properties: Mapping[str, str]) -> SignalSettings:
        """Read Debezium's properties; `definition` has checked them."""
        channels = properties.get("signal.enabled.channels", "source")
        strategy = properties.get("incremental.snapshot.watermarking.strategy", "insert_insert")
        return SignalSettings(
            table=properties.get("signal.data.collection", "").strip(),
            channels=frozenset(each.strip() for each in channels.split(",") if each.strip()),
            topic=properties.get("signal.kafka.topic") or f"{properties['topic.prefix']}-signal",
            bootstrap_servers=properties.get("signal.kafka.bootstrap.servers", ""),
            group_id=properties.get("signal.kafka.groupId", "kafka-signal"),
            consumer={
                name.removeprefix(CONSUMER_PREFIX): value
                for name, value in properties.items()
                if name.startswith(CONSUMER_PREFIX)
            },
            file=properties.get("signal.file", "file-signals.txt"),
            poll_s=int(properties.get("signal.poll.interval.ms", "5000")) / 1000,
            chunk_size=int(properties.get("incremental.snapshot.chunk.size", "1024")),
            deletes_watermarks=strategy.strip().lower() == "insert_delete",
            is_read_only=properties.get("read.only", "false").lower() == "true",
        )

    @property
    def reads_table(self) -> bool:
        """Whether signals come as rows of the signal table."""
        return bool(self.table) and "source" in self.channels
