"""The topics that exist according to the clients that create and delete them."""

from __future__ import annotations

from collections.abc import Callable

from penstock.testing.simulator.history import History, Partition


class Topics:
    """The partitions that clients may use now, in `partitions`; `on_added` is called for each new one."""

    def __init__(self, history: History) -> None:
        self.partitions: list[Partition] = []
        self.on_added: Callable[[Partition], object] = lambda partition: None
        self.deletions = 0
        self.growths = 0
        self._history = history

    def has(self, topic: str, topic_id: bytes, count: int) -> None:
        """Note a confirmed creation of a topic or of more partitions."""
        for number in range(count):
            partition = Partition(topic, number, topic_id)
            if partition not in self.partitions:
                self.partitions.append(partition)
                self.on_added(partition)

    def doom(self, topic_id: bytes) -> None:
        """Note that the topic's deletion is about to be requested, so that it may disappear at any moment."""
        self._history.doomed[topic_id] = None
        # In place, since clients share the list.
        self.partitions[:] = [found for found in self.partitions if found.topic_id != topic_id]

    def is_doomed(self, partition: Partition) -> bool:
        return partition.topic_id in self._history.doomed

    def count_of(self, topic_id: bytes) -> int:
        return sum(found.topic_id == topic_id for found in self.partitions)
