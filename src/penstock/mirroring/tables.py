"""The query of a mirror: it keeps a Delta or Iceberg table for each topic of changes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.mirroring.errors import MirrorError
from penstock.mirroring.known import LeftOut
from penstock.mirroring.selection import topics_expression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark import TargetTable

MAX_OFFSETS_PER_TRIGGER: Final = 100_000
"""Limits the changes of a batch, which pass through the driver's memory."""

_ERROR_OF_PYTHON: Final = re.compile(r"^ {4}.*\n((?!py4j|pyspark)(?:\w+\.)*[A-Z]\w*: .+)$", re.MULTILINE)
"""The end of a traceback; errors that only pass one of Java's on are left out."""
_CAUSE_OF_JAVA: Final = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tables are: ``delta:PATH``, which has directories SCHEMA/TABLE, or ``iceberg:CATALOG``."""

    kind: str
    name: str

    @staticmethod
    def of(text: str) -> Place:
        """Read the place. Raises MirrorError."""
        kind, _, name = text.partition(":")
        if kind not in ("delta", "iceberg") or not name.strip("/"):
            raise MirrorError(f"the place {text!r} of the tables: expected delta:PATH or iceberg:CATALOG")
        return Place(kind, name.rstrip("/"))

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    def path_of(self, schema: str, table: str) -> str:
        """Return the path of a table, or its identifier in the catalog."""
        return f"{self.name}/{schema}/{table}" if self.kind == "delta" else f"{self.name}.{schema}.{table}"

    def table(self, schema: str, table: str) -> TargetTable:
        """Return a table. Raises MissingExtra."""
        from penstock.spark import DeltaTarget, IcebergTarget

        path = self.path_of(schema, table)
        return DeltaTarget(path) if self.kind == "delta" else IcebergTarget(path)


@dataclass(slots=True)
class Applied:
    """The changes that a mirror has applied since it was started, by ``SCHEMA.TABLE``."""

    batches: int = 0
    changes: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.changes.values())


class TablesQuery:
    """The query that keeps the tables, across all of its runs.

    ``session`` returns the Spark session, which may still be about to start. ``client`` are the client's
    properties besides the address. ``warn`` gets one line for each topic that has
    rows without keys, whose table is not kept.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        bootstrap: str,
        prefix: str,
        place: Place,
        checkpoint: Path,
        interval_s: float,
        warn: Callable[[str], object],
        client: Mapping[str, str],
        left_out: LeftOut,
    ) -> None:
        self._session = session
        self._bootstrap = bootstrap
        self._client = client
        self._prefix = prefix
        self._place = place
        self._checkpoint = checkpoint
        self._interval_s = interval_s
        self._warn = warn
        self._left_out = left_out
        self._query: StreamingQuery | None = None
        self._positions: dict[str, int] = {}
        self._lock = threading.Lock()
        self.applied = Applied()

    def start(self, *, once: bool = False) -> None:
        """Start a run, which resumes at the checkpoint; with ``once`` it ends at the topics' present ends."""
        from penstock.spark.changes.envelope import read_keyed_changes
        from penstock.spark.changes.several import apply_changes_of_topics

        session = self._session()
        records = (
            session.readStream.format("penstock")
            .options(**{f"kafka.{name}": value for name, value in self._client.items()})
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribePattern", topics_expression(self._prefix))
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .option("maxOffsetsPerTrigger", str(MAX_OFFSETS_PER_TRIGGER))
            # Otherwise each topic would be a task in each of the jobs, of which every table has some.
            .option("maxPartitions", str(session.sparkContext.defaultParallelism))
            .load()
        )
        self._query = apply_changes_of_topics(
            read_keyed_changes(records, out_of_range="nearest"),
            lambda topic: self._place.table(*self._names(topic)),
            checkpoint_location=self._checkpoint,
            on_batch=self._count,
            on_keyless=self._leave_out,
            left_out=[f"{self._prefix}.{name}" for name in self._left_out.names()],
            trigger={"availableNow": True} if once else {"processingTime": f"{self._interval_s:g} seconds"},
        )

    @property
    def is_active(self) -> bool:
        return self._query is not None and self._query.isActive

    @property
    def failure(self) -> str | None:
        """Why the last run failed; None if it runs, or ended at its end."""
        if self._query is None or self._query.isActive or (error := self._query.exception()) is None:
            return None
        return cause_of(str(error))

    def positions(self) -> dict[str, int]:
        """Return how far the runs of this process have come in each topic."""
        progress = None if self._query is None else self._query.lastProgress
        if progress is not None and progress["sources"]:
            end: Any = progress["sources"][0]["endOffset"]
            found = json.loads(end) if isinstance(end, str) else end or {}
            self._positions |= {
                topic: int(offsets["0"])
                for topic, offsets in found.items()
                if isinstance(offsets, dict) and "0" in offsets
            }
        return self._positions

    def stop(self) -> None:
        """Stop the run; the batch in work is applied again by the next one, once."""
        if self._query is not None:
            self._query.stop()

    def _names(self, topic: str) -> tuple[str, str]:
        schema, table = topic.removeprefix(f"{self._prefix}.").split(".")
        return schema, table

    def _count(self, counts: Mapping[str, int]) -> None:
        with self._lock:
            self.applied.batches += 1
            for topic, count in counts.items():
                name = ".".join(self._names(topic))
                self.applied.changes[name] = self.applied.changes.get(name, 0) + count

    def _leave_out(self, topic: str) -> None:
        name = ".".join(self._names(topic))
        self._left_out.add(name)
        self._warn(
            f"{name} is not mirrored: its rows have no key. Leave it out by --exclude {name} when the mirror "
            f"is started again, or mirror it separately, with --keys {name}=COLUMN,…"
        )


def cause_of(text: str) -> str:
    """Return the line of a query's error that says what happened, of Python's part or else of Java's."""
    for pattern in (_ERROR_OF_PYTHON, _CAUSE_OF_JAVA):
        if found := pattern.findall(text):
            return str(found[-1])
    return text.strip().partition("\n")[0]
