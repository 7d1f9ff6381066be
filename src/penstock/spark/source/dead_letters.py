"""Records that a task could not decode, written to a topic unchanged, with headers that state the reason.

They are acknowledged before the task is done. A task that runs again writes them again: at least once.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from penstock.arrow.batches import DeadLetter
from penstock.client.config import ClientConfig
from penstock.client.producing.producer import ProducerConfig
from penstock.protocol.compression import Codec
from penstock.protocol.records import Record, encode_batch
from penstock.spark.workers.connections import WrittenTopics, discard_producer, shared_producer

PREFIX: Final = "__penstock.errors."
_BATCH_BYTES: Final = 256 << 10
"""The size from which a batch is sent; a producer splits one that a broker finds too large."""
_COMPRESSED_BYTES: Final = 512 << 10
"""The size from which a batch is compressed.

Its records may have been compressed where they came from, and have more headers now. Only the topic's
max.message.bytes then limits their size.
"""
_REQUEST_BYTES_MAX: Final = 64 << 20


class DeadLetterTopic:
    """The dead letters of one task. Letters of one partition keep their order, in one partition."""

    def __init__(self, client: ClientConfig, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._config = ProducerConfig(max_request_bytes=_REQUEST_BYTES_MAX)
        self._is_used = False
        self._written = WrittenTopics(client)

    def keep(self, letters: list[DeadLetter]) -> None:
        """Send the letters to the topic. Raises ClientError."""
        self._is_used = True
        producer = shared_producer(self._client, self._config)
        try:
            count = len(self._written[self._topic].partitions)
            for partition, group in groupby(letters, lambda letter: letter.partition % count):
                batch: list[Record] = []
                size = 0
                for letter in group:
                    batch.append(_record(letter))
                    size += len(letter.key or b"") + len(letter.value or b"")
                    if size >= _BATCH_BYTES:
                        producer.send(self._topic, partition, _encoded(batch, size))
                        batch, size = [], 0
                if batch:
                    producer.send(self._topic, partition, _encoded(batch, size))
        except BaseException:
            discard_producer(self._client, self._config)
            raise

    def flush(self) -> None:
        """Wait until all are acknowledged. Raises ClientError."""
        if not self._is_used:
            return
        try:
            shared_producer(self._client, self._config).flush()
        except BaseException:
            discard_producer(self._client, self._config)
            raise

    def give_up(self) -> None:
        """Discard letters that are not acknowledged, because the task has failed."""
        if self._is_used:
            discard_producer(self._client, self._config)


def _encoded(batch: list[Record], size: int) -> bytearray:
    """Encode a batch; a large one is compressed with gzip, which every client supports."""
    codec = Codec.GZIP if size >= _COMPRESSED_BYTES else Codec.NONE
    return bytearray(encode_batch(batch, compression=codec))


def _record(letter: DeadLetter) -> Record:
    """The record with its own headers, then those that state the reason.

    If both key and value are undecodable, part and format are the key's, and the reason names both.
    """
    part, format_name, _ = letter.reasons[0]
    why = "; ".join(f"{each}: {reason}" for each, _, reason in letter.reasons)
    told = {
        "topic": letter.topic,
        "partition": str(letter.partition),
        "offset": str(letter.offset),
        "part": part,
        "format": format_name,
        "reason": why,
    }
    headers = [(name, value) for name, value in letter.headers]
    headers += [(PREFIX + name, text.encode()) for name, text in told.items()]
    return Record(0, letter.timestamp_ms, letter.key, letter.value, tuple(headers))
