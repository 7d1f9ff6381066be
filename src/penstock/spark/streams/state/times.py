"""The times of tasks beside the changelogs: their stream time, and the ends of the windows already emitted.

The checkpoint holds both. An application that has lost it rebuilds its stores from the changelogs; without
the times it would accept late records again and emit closed windows a second time. The batch's transaction
therefore commits the times as metadata of the application's group, in the bytes that Kafka Streams uses
(TopicPartitionMetadata, version 2). Kafka Streams keeps them beside the offsets of the topics that a task
reads. Here repartition topics may not exist, so the times are kept beside the task's first changelog, without
an offset.
"""

from __future__ import annotations

import base64
import binascii
from struct import Struct, error
from typing import Final

import numpy as np

from penstock.client.connections.metadata import TopicPartition
from penstock.spark.sink.staged import GroupNote
from penstock.spark.streams.blocks.packing import Binary, Block, Kind
from penstock.topology.stores.ordered_bytes import OrderedBytes
from penstock.topology.tasks.task import TASK_CLOCK

METADATA_BYTES_MAX: Final = 4096
"""The default of a broker's offset.metadata.max.bytes."""

_VERSION: Final = 2
_HEAD: Final = Struct(">Bq")
_SIZE: Final = Struct(">i")
_MS: Final = Struct(">q")
_NONE: Final = -1


class DamagedTimes(ValueError):
    """The metadata does not have this format."""


def to_metadata(times: OrderedBytes) -> str:
    """Encode the times of one task, in ms, stored under the names of its nodes."""
    by_name = dict(times.data)
    task_ms = by_name.pop(TASK_CLOCK.encode(), None)
    parts = [_HEAD.pack(_VERSION, _NONE if task_ms is None else int(task_ms))]
    if by_name:
        parts.append(_SIZE.pack(len(by_name)))
    for name, ms in sorted(by_name.items()):
        parts += [_SIZE.pack(len(name)), name, _MS.pack(int(ms))]
    return base64.b64encode(b"".join(parts)).decode()


def from_metadata(metadata: str) -> dict[bytes, bytes]:
    """Decode the times of one task. Raises DamagedTimes."""
    try:
        data = base64.b64decode(metadata, validate=True)
        version, task_ms = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise DamagedTimes(f"found times of version {version}, expected {_VERSION}")
        times = {} if task_ms == _NONE else {TASK_CLOCK.encode(): b"%d" % task_ms}
        at = _HEAD.size + _SIZE.size
        count = _SIZE.unpack_from(data, _HEAD.size)[0] if len(data) > _HEAD.size else 0
        for _ in range(count):
            (size,) = _SIZE.unpack_from(data, at)
            at += _SIZE.size
            name, at = data[at : at + size], at + size
            times[name] = b"%d" % _MS.unpack_from(data, at)[0]
            at += _MS.size
    except (binascii.Error, error):
        raise DamagedTimes(f"found {metadata[:80]!r}, expected the times of a task") from None
    return times


def times_block(application: str, place: TopicPartition, metadata: str, clock_ms: int) -> Block:
    """Return a block of times; ``place`` is the task's partition of its first changelog."""
    return Block(
        Kind.TIMES,
        clock_ms,
        "",
        place.partition,
        (place.topic,),
        np.array([clock_ms], np.int64),
        np.array([-1], np.int64),
        Binary.of([application.encode()]),
        Binary.of([metadata.encode()]),
    )


def note_of_times(block: Block) -> GroupNote:
    [application], [metadata] = block.keys.values(), block.values.values()
    assert application is not None
    assert metadata is not None
    return GroupNote(
        application.decode(), TopicPartition(block.targets[0], block.partition), metadata.decode()
    )


def restore_times(block: Block, times: OrderedBytes) -> None:
    """Add a block's times to ``times``. Raises DamagedTimes."""
    for name, ms in from_metadata(note_of_times(block).metadata).items():
        times.put(name, ms)
