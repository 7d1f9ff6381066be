"""How far a query is behind, read from its progress.

from penstock.spark import lag

behind = lag(query.lastProgress)
behind.total, behind.partitions["orders", 0]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.client.metadata import TopicPartition
from penstock.client.settings import ConfigError
from penstock.spark.source.offsets import Offsets, from_json


class HasJson(Protocol):
    """pyspark's ``StreamingQueryProgress``."""

    @property
    def json(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Lag:
    """Offsets between what a batch read last and where the partitions ended when it was planned.

    With gaps in them (compaction, transaction markers) that is more than there are records. A partition in
    which the batch has read everything has 0.
    """

    partitions: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        return sum(self.partitions.values())

    def __str__(self) -> str:
        behind = {tp: lag for tp, lag in self.partitions.items() if lag}
        shown = ", ".join(f"{tp}: {lag}" for tp, lag in sorted(behind.items()))
        return f"{self.total}" + (f" ({shown})" if shown else "")


def lag(progress: HasJson | Mapping[str, Any] | str) -> Lag:
    """The lag of every partition that the query reads with ``penstock`` or Spark's own Kafka source.

    ``progress``: ``query.lastProgress``, an element of ``query.recentProgress``, what a
    ``StreamingQueryListener`` is given, or its JSON. Where several sources read one partition, the one that
    is farther behind counts. Sources of other kinds are passed over. Raises ConfigError for anything else.
    """
    partitions: dict[TopicPartition, int] = {}
    for end, latest in _sources(_fields(progress)):
        for tp, offset in latest.items():
            behind = max(0, offset - end.get(tp, 0))
            partitions[tp] = max(behind, partitions.get(tp, 0))
    return Lag(partitions)


def _fields(progress: HasJson | Mapping[str, Any] | str) -> Mapping[str, Any]:
    given: object = progress if isinstance(progress, str | Mapping) else getattr(progress, "json", progress)
    if isinstance(given, str):
        text = given
        try:
            given = json.loads(text)
        except ValueError:
            raise ConfigError(
                f"expected the progress of a streaming query or its JSON, found {text[:80]!r}"
            ) from None
    if not isinstance(given, Mapping) or "sources" not in given:
        raise ConfigError(
            f"expected the progress of a streaming query, with 'sources', found {type(given).__name__}"
        )
    return given


def _sources(progress: Mapping[str, Any]) -> Iterator[tuple[Offsets, Offsets]]:
    """End of the batch and latest offsets, of each source that has both in our shape."""
    for source in progress["sources"]:
        end = _offsets(source.get("endOffset"))
        latest = _offsets(source.get("latestOffset"))
        if end is not None and latest is not None:
            yield end, latest


def _offsets(value: object) -> Offsets | None:
    """Offsets in a progress are JSON within JSON, or an object already; None if they are not ours."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
        return from_json(found) if isinstance(found, dict) else None
    except (ValueError, TypeError, AttributeError):
        return None
