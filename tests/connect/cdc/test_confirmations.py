"""The positions that are confirmed to the server, for random batches and orders of reports. Pure."""

import itertools
import os
import random

import pytest

pytest.importorskip("psycopg")

from penstock.connect.cdc.batches import Batch, BatchQueue
from penstock.connect.cdc.postgres.reading.confirmations import Confirmations
from penstock.connect.data.records import SourceRecord

SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
CASES = 300
NUMBERS = itertools.count()
"""Makes all records different."""


def test_positions_are_safe_and_complete() -> None:
    """Against the definition: the last end that no record before it is missing for, as of the last commit."""
    print(f"PENSTOCK_SEED={SEED}")
    rng = random.Random(SEED)
    for _ in range(CASES):
        confirmations = Confirmations()
        order: list[SourceRecord | int] = []
        flying: list[SourceRecord] = []
        known, is_stored = 0, True
        for _ in range(rng.randrange(1, 30)):
            choice = rng.random()
            if choice < 0.4:
                batch = random_batch(rng, order)
                confirmations.emitted(batch)
                flying += batch.records
            elif choice < 0.8 and flying:
                record = flying.pop(rng.randrange(len(flying)))
                confirmations.reported(record)
                order.remove(record)
                is_stored = False
            else:
                confirmations.stored()
                known, is_stored = max(known, safe_end(order)), True
            if is_stored:
                known = max(known, safe_end(order))
            assert confirmations.position == known


def random_batch(rng: random.Random, order: list[SourceRecord | int]) -> Batch:
    """A batch; ``order`` gets its records and ends in their order."""
    records: list[SourceRecord] = []
    ends = []
    end = max((each for each in order if isinstance(each, int)), default=0)
    for _ in range(rng.randrange(4)):
        made = [SourceRecord(topic=str(next(NUMBERS))) for _ in range(rng.randrange(3))]
        records += made
        order += made
        if rng.random() < 0.7:
            end += rng.randrange(1, 100)
            ends.append((len(records), end))
            order.append(end)
    return Batch(records, ends, None)


def safe_end(order: list[SourceRecord | int]) -> int:
    """The last end before the first record that was not reported."""
    last = 0
    for each in order:
        if not isinstance(each, int):
            break
        last = each
    return last


def test_a_record_from_elsewhere_is_ignored() -> None:
    confirmations = Confirmations()
    confirmations.reported(SourceRecord(topic="t"))
    assert confirmations.position == 0


def test_a_queue_raises_its_error_after_the_batches() -> None:
    queue = BatchQueue(2)
    batch = Batch([SourceRecord(topic="t")] * 3, (), None)
    assert queue.offer(batch, 0)
    assert not queue.offer(batch, 0), "the queue is full"
    queue.close(ValueError("the end"))
    assert queue.take(0) == batch
    with pytest.raises(ValueError, match="the end"):
        queue.take(0)
    assert not queue.offer(batch, 0), "the queue is closed"


def test_a_queue_keeps_the_error_that_ended_it() -> None:
    """The thread that reads closes the queue as well when another one has ended it."""
    queue = BatchQueue(1)
    queue.close(ValueError("too far behind"))
    queue.close()
    with pytest.raises(ValueError, match="too far behind"):
        queue.take(0)
