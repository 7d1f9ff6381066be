"""Which topics there are, as those know who make and delete them: clients choose their partitions here."""

from __future__ import annotations

from collections.abc import Callable

from penstock.testing.simulator.history import History, Partition


class Topics:
    """`partitions` are what clients may use now. A partition that is added is told to `on_added`."""

    def __init__(self, history: History) -> None:
        self.partitions: list[Partition] = []
        self.on_added: Callable[[Partition], object] = lambda partition: None
        self.deletions = 0
        self.growths = 0
        self._history = history

    def has(self, topic: str, topic_id: bytes, count: int) -> None:
        """A topic was created, or has got more partitions: somebody was told so."""
        for number in range(count):
            partition = Partition(topic, number, topic_id)
            if partition not in self.partitions:
                self.partitions.append(partition)
                self.on_added(partition)

    def doom(self, topic_id: bytes) -> None:
        """Its deletion is about to be asked for: from now on it may be gone at any moment."""
        self._history.doomed[topic_id] = None
        # in place: clients hold on to the list
        self.partitions[:] = [found for found in self.partitions if found.topic_id != topic_id]

    def is_doomed(self, partition: Partition) -> bool:
        return partition.topic_id in self._history.doomed

    def count_of(self, topic_id: bytes) -> int:
        return sum(found.topic_id == topic_id for found in self.partitions)
