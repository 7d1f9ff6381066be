"""Both kernels encode records and hash keys as the plain functions do."""

import os
import random
from types import ModuleType

import pytest

from penstock.protocol.kernels import pure
from penstock.protocol.murmur2 import murmur2
from penstock.protocol.records import Record, decode_batch, encode_batch, produced_batch

try:
    from penstock.protocol.kernels import compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
SIZES = (0, 1, 5, 63, 64, 300)
LARGE = 70_000
NOW_MS = 1_700_000_000_000


def rows_of(rng: random.Random) -> list[Record]:
    headers = [(), [("name", b"v")], (("ä", None), ("", rng.randbytes(100)))]

    def data() -> bytes | None:
        return None if rng.random() < 0.1 else rng.randbytes(rng.choice(SIZES))

    rows = [
        Record(rng.randrange(9), rng.choice((-1, 0, NOW_MS + rng.randrange(10_000))), data(), data(), found)
        for found in rng.choices(headers, k=rng.randrange(1, 30))
    ]
    return [*rows, Record(0, NOW_MS, None, rng.randbytes(LARGE))] if rng.random() < 0.1 else rows


@pytest.mark.parametrize("kernel", [pure, compiled], ids=["pure", "compiled"])
def test_rows_become_the_batch_that_encode_batch_makes(kernel: ModuleType | None) -> None:
    if kernel is None:
        pytest.skip("no compiled kernel here")
    print(f"PENSTOCK_SEED={SEED}")
    rng = random.Random(SEED)
    for number in range(60):
        rows, is_transactional = rows_of(rng), number % 2 == 0
        payload = kernel.encode_rows(rows, rows[0].timestamp)
        made = produced_batch(rows, payload, number % 3, is_transactional)
        assert made == encode_batch(rows, compression=number % 3, transactional=is_transactional)
        assert len(list(decode_batch(made))) == len(rows)


@pytest.mark.skipif(compiled is None, reason="no compiled kernel here")
def test_keys_have_the_hash_of_murmur2() -> None:
    print(f"PENSTOCK_SEED={SEED}")
    rng = random.Random(SEED)
    for size in (*range(20), 1000):
        key = rng.randbytes(size)
        assert compiled.key_hash(key) == pure.key_hash(key) == murmur2(key)
