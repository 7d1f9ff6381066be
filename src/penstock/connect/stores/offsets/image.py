"""The newest offset of each source partition, built by replaying an offset topic."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.connect.stores.offsets.keys import Partition, canonical, key_of, parse_key


class OffsetImage:
    """Replays the records of an offset topic. For one thread at a time."""

    def __init__(self) -> None:
        self._values: dict[bytes, tuple[int, bytes]] = {}
        """The topic's partition and the value, by key."""
        self._keys: dict[str, dict[bytes, dict[bytes, Partition]]] = {}
        """The source partitions with a value: by connector, canonical partition, and key.

        Equal partitions have several keys if they were written with their names in several orders.
        """

    def replay(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Apply a record."""
        if key is None:
            return
        if value is None:
            self._remove(key)
            return
        self._values[key] = partition, value
        known = parse_key(key)
        if known is not None:
            keys = self._keys.setdefault(known.connector, {})
            keys.setdefault(canonical(known.partition), {})[key] = known.partition

    def restart(self, partition: int) -> None:
        """Forget what a partition's records said."""
        for key in [key for key, (place, _) in self._values.items() if place == partition]:
            self._remove(key)

    def get(self, key: bytes) -> bytes | None:
        found = self._values.get(key)
        return None if found is None else found[1]

    def key_for(self, connector: str, partition: Partition) -> bytes | None:
        """The key under which this partition has a value. Raises DataError for an invalid partition."""
        key = key_of(connector, partition)
        if key in self._values:
            return key
        return next(iter(self._keys.get(connector, {}).get(canonical(partition), ())), None)

    def keys(self, connector: str) -> Mapping[bytes, Partition]:
        """The source partitions of a connector that have a value, by key."""
        return {
            key: partition
            for keys in self._keys.get(connector, {}).values()
            for key, partition in keys.items()
        }

    def _remove(self, key: bytes) -> None:
        self._values.pop(key, None)
        known = parse_key(key)
        if known is None:
            return
        partitions, same = self._keys.get(known.connector, {}), canonical(known.partition)
        keys = partitions.get(same, {})
        keys.pop(key, None)
        if not keys:
            partitions.pop(same, None)


def distinct(keys: Mapping[bytes, Partition]) -> list[Partition]:
    """Return the partitions of these keys, equal ones once."""
    return list({canonical(partition): partition for partition in keys.values()}.values())
