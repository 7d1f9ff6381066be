"""Positions: how much of some topics an answer includes, or must include."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.client.connections.metadata import TopicPartition
from penstock.views.errors import InvalidQuery


@dataclass(frozen=True, slots=True)
class Position:
    """Offsets by partition; a position covers everything before them (KIP-796 has the last offset instead).

    The topics are changelogs, as in answers, or topics that the application reads, which a writer knows:
    `of_record` converts the offset that a producer receives with the acknowledgement of a record.

    >>> Position.of_record("orders", 0, 41)
    Position({"orders":{"0":42}})
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def of_record(cls, topic: str, partition: int, offset: int) -> Position:
        """Return the least position that covers one record."""
        return cls({TopicPartition(topic, partition): offset + 1})

    @classmethod
    def from_json(cls, text: str) -> Position:
        """Parse ``{"topic": {"partition": offset}}``. Raises InvalidQuery."""
        try:
            return cls(
                {
                    TopicPartition(topic, int(partition)): _offset(offset)
                    for topic, offsets in json.loads(text).items()
                    for partition, offset in offsets.items()
                }
            )
        except (ValueError, AttributeError, TypeError):
            expected = 'expected {"topic": {"partition": offset}}'
            raise InvalidQuery(f"the position {text[:200]!r} can't be read: {expected}") from None

    def to_json(self) -> str:
        by_topic: dict[str, dict[str, int]] = {}
        for tp, offset in sorted(self.offsets.items()):
            by_topic.setdefault(tp.topic, {})[str(tp.partition)] = offset
        return json.dumps(by_topic, separators=(",", ":"))

    def __repr__(self) -> str:
        return f"Position({self.to_json()})"

    def __or__(self, other: Position) -> Position:
        """Return the least position that covers both."""
        return merged((self, other))

    def covers(self, other: Position) -> bool:
        return all(self.offsets.get(tp, 0) >= offset for tp, offset in other.offsets.items())


def merged(positions: Iterable[Position]) -> Position:
    """Return the least position that covers all of them."""
    offsets: dict[TopicPartition, int] = {}
    for position in positions:
        for tp, offset in position.offsets.items():
            offsets[tp] = max(offset, offsets.get(tp, 0))
    return Position(offsets)


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value
