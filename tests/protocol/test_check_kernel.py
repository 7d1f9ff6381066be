"""Both kernels accept the same batches: the first that is cut short, damaged or old ends the run."""

import random
from types import ModuleType

import pytest
from crc32c import crc32c

from penstock.protocol import batch
from penstock.protocol.kernels import pure
from penstock.protocol.records import Record, encode_batch

try:
    from penstock.protocol.kernels import compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

SEED = random.randrange(1 << 32)


def batches(rng: random.Random, count: int) -> bytearray:
    """Batches of all sizes with ascending offsets, some with gaps between them."""
    run = bytearray()
    offset = rng.randrange(1000)
    for _ in range(count):
        records = [
            Record(at, 1000, None, rng.randbytes(rng.choice((0, 1, 7, 300, 5000))))
            for at in range(rng.randrange(1, 4))
        ]
        one = bytearray(encode_batch(records))
        headers = [header for _, header in batch.iter_headers(one)]
        batch.assign_offsets(one, headers, offset, 3)
        run += one
        offset += len(records) + rng.choice((0, 0, 5))
    return run


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("kernel", [pure, compiled], ids=["pure", "compiled"])
def test_sound_batches_are_counted_up_to_the_first_that_is_not(
    kernel: ModuleType | None, portable: bool
) -> None:
    if kernel is None:
        pytest.skip("no compiled kernel here")
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    for count in range(12):
        run = batches(rng, count)
        headers = list(batch.iter_headers(run))
        last_offset = headers[-1][1].last_offset if headers else -1
        assert kernel.check_batches(run, -1, portable) == (len(run), last_offset)
        assert kernel.check_batches(memoryview(run)[: len(run) - 1], -1, portable)[0] == (
            headers[-1][0] if headers else 0
        )
        for number, (position, header) in enumerate(headers):
            before = headers[number - 1][1].last_offset if number else -1
            damaged = bytearray(run)
            at = rng.choice((8, 9, 16, 20, 21, 40, header.size_bytes - 1))
            damaged[position + at] ^= 1 << rng.randrange(8)
            assert kernel.check_batches(damaged, -1, portable) == (position, before)
        if headers:
            assert kernel.check_batches(run, headers[0][1].last_offset, portable) == (
                0,
                headers[0][1].last_offset,
            )


@pytest.mark.skipif(compiled is None, reason="no compiled kernel here")
def test_the_kernels_agree_on_whatever_bytes() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    for _ in range(300):
        run = batches(rng, rng.randrange(6))
        for _ in range(rng.randrange(3)):
            if run:
                run[rng.randrange(len(run))] ^= 1 << rng.randrange(8)
        run = run[: rng.randrange(len(run) + 1)] if rng.random() < 0.3 else run
        start = rng.randrange(-1, 1100)
        assert compiled.check_batches(run, start) == pure.check_batches(run, start)
    for noise in (b"", b"\0" * 100, rng.randbytes(1000)):
        assert compiled.check_batches(noise, -1) == pure.check_batches(noise, -1) == (0, -1)


@pytest.mark.skipif(compiled is None, reason="no compiled kernel here")
def test_checksums_are_right_with_and_without_the_instruction() -> None:
    from penstock.protocol.kernels import batch_checks

    for size in (*range(40), 1000, *range(4070, 4100), 8159, 8160, 16_445, 100_003):
        data = random.Random(size).randbytes(size)
        assert batch_checks.checksums(data) == (crc32c(data), crc32c(data))
