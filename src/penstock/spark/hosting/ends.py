"""The end offsets of all members' topics, requested once for all members.

Members that read the same topic thus see the same records in the same batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.client.connections.cluster import Cluster
from penstock.client.reading.offsets import IsolationLevel
from penstock.spark.source.checkpointed import Checkpointed, GroupRef
from penstock.spark.source.offsets import Offsets
from penstock.spark.source.subscription import Topics
from penstock.spark.source.tail import Tail


class CommonEnds:
    """The end offsets that all members share, used by one thread.

    After `look`, the members' `EndsOfMember` answer from what it found.
    """

    def __init__(self, cluster: Cluster, isolation: IsolationLevel) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._tail = Tail(cluster, Topics(()), isolation)
        self._names: tuple[str, ...] = ()

    def close(self) -> None:
        self._tail.close()

    def look(self, topics: Collection[str], positions: Iterable[Offsets]) -> None:
        """Fetch the end offsets of all members' topics, read up to ``positions``. Raises ClientError."""
        names = tuple(sorted(topics))
        if names != self._names:
            self._tail.close()
            self._tail, self._names = Tail(self._cluster, Topics(names), self._isolation), names
        if names:
            self._tail.ends(_common(positions))

    def have_grown(self) -> bool:
        """Whether any topic has grown since `look`. Raises ClientError."""
        before = self._tail.last_listed
        return bool(self._names) and self._tail.ends(before) != before

    @property
    def tail(self) -> Tail:
        return self._tail


def _common(positions: Iterable[Offsets]) -> Offsets:
    """Return the members' shared position, or nothing if two differ, since one of them is then behind."""
    found: Offsets = {}
    for offsets in positions:
        for tp, offset in offsets.items():
            if found.setdefault(tp, offset) != offset:
                return {}
    return found


class EndsOfMember:
    """The `penstock.spark.source.tail.Ends` of one member's topics."""

    def __init__(self, common: CommonEnds, topics: Collection[str]) -> None:
        self._common = common
        self._topics = frozenset(topics)

    @property
    def last_listed(self) -> Offsets:
        listed = self._common.tail.last_listed
        return {tp: offset for tp, offset in listed.items() if tp.topic in self._topics}

    def ends(self, known: Offsets) -> Offsets:
        return self.last_listed

    def list_now(self) -> None:
        self._common.tail.list_now()

    def checkpointed(self, offsets: Offsets, group: GroupRef | None) -> Checkpointed:
        return self._common.tail.checkpointed(offsets, group)

    def close(self) -> None:
        """Do nothing, because the other members use the same connections."""
