"""The record batches that rows send: made once from a seed, the same bytes for both brokers."""

import random
import time
from dataclasses import dataclass
from pathlib import Path

from penstock.protocol.compression import Codec
from penstock.protocol.records import Record, encode_batch

BATCH_BYTES = 16 * 1024  # the Java producer's batch.size
DISTINCT_BYTES = 4 << 20  # more than a core's caches hold, so that no broker finds the bytes in a cache
DISTINCT_MAX = 4096
WORDS = tuple(f"{name}{number}" for name in ("origin", "carrier", "delay", "gate") for number in range(64))


@dataclass(frozen=True)
class Data:
    """Records of one size, in batches of about `BATCH_BYTES` before compression.

    Args:
        size_bytes: the size of each value.
        codec: the compression of the batches. Values are random bytes without one, else text that
            shrinks to about a third.
        records_per_batch: replaces the number that fills a batch.
        keys: the number of keys, each once in the file, in random order; 0 for records without keys.
    """

    size_bytes: int
    codec: Codec = Codec.NONE
    records_per_batch: int = 0
    keys: int = 0

    @property
    def per_batch(self) -> int:
        """The number of records in one batch."""
        return self.records_per_batch or max(1, BATCH_BYTES // (self.size_bytes + 8))

    def file(self, directory: Path) -> Path:
        """Return the file of concatenated batches, which the first call writes."""
        name = f"batches-{self.size_bytes}-{self.codec.name.lower()}-{self.per_batch}-{self.keys}"
        path = directory / name
        if not path.exists():
            directory.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".part")
            unfinished.write_bytes(self._batches())
            unfinished.rename(path)
        return path

    def _batches(self) -> bytes:
        rng = random.Random(self.size_bytes)
        batch_bytes = self.per_batch * self.size_bytes
        count = self.keys // self.per_batch if self.keys else min(DISTINCT_MAX, DISTINCT_BYTES // batch_bytes)
        keys: list[bytes | None] = [b"key-%08d" % number for number in range(self.keys)]
        rng.shuffle(keys)
        now_ms = int(time.time() * 1000)
        out = bytearray()
        for batch in range(count):
            first = batch * self.per_batch
            rows = [
                Record(0, now_ms, keys[first + i] if self.keys else None, self._value(rng))
                for i in range(self.per_batch)
            ]
            out += encode_batch(rows, compression=self.codec)
        return bytes(out)

    def _value(self, rng: random.Random) -> bytes:
        if self.codec == Codec.NONE:
            return rng.randbytes(self.size_bytes)
        text = bytearray()
        while len(text) < self.size_bytes:
            text += f'{{"{rng.choice(WORDS)}": {rng.randrange(100_000)}}}'.encode()
        return bytes(text[: self.size_bytes])
