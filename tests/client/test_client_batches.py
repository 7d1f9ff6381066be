"""Fetched bytes: torn tails, aborted transactions."""

import pytest

from penstock.client.batches import AbortedTransaction, committed, whole_batches
from penstock.protocol.batch import CorruptBatch
from penstock.protocol.records import (
    Record,
    decode_batches,
    encode_batch,
    encode_end_txn_marker,
)


def batch(offset, values, producer_id=-1, transactional=False):
    records = [Record(0, 1, None, value, []) for value in values]
    return encode_batch(
        records, offset, producer_id=producer_id, producer_epoch=0, transactional=transactional
    )


def marker(offset, producer_id, is_commit):
    return encode_end_txn_marker(
        committed=is_commit,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp=1,
        base_offset=offset,
    )


def test_a_torn_tail_is_cut_and_the_next_offset_known():
    first, second = batch(10, [b"a", b"b"]), batch(12, [b"c"])
    for torn in range(len(second)):
        found = whole_batches(memoryview(first + second[:torn]))
        assert (bytes(found.data), found.next_offset) == (first, 12)
    assert whole_batches(memoryview(first + second)).next_offset == 13


@pytest.mark.parametrize("data", [b"\0" * 12, b"\xff" * 40, b"\0" * 11 + b"\x20" + b"\7" * 32])
def test_what_is_no_batch_is_refused(data):
    with pytest.raises(CorruptBatch):
        whole_batches(memoryview(data))


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * 11])
def test_without_one_whole_batch_there_is_no_next_offset(data):
    found = whole_batches(memoryview(data))
    assert (bytes(found.data), found.next_offset) == (b"", None)


def test_only_aborted_transactions_are_left_out():
    log = b"".join(
        [
            batch(0, [b"plain"]),
            batch(1, [b"aborted"], producer_id=1, transactional=True),
            batch(2, [b"committed"], producer_id=2, transactional=True),
            batch(3, [b"plain with an id"], producer_id=1),
            marker(4, 1, False),
            marker(5, 2, True),
            batch(6, [b"later by the same"], producer_id=1, transactional=True),
            marker(7, 1, True),
        ]
    )
    spans = committed(memoryview(log), [AbortedTransaction(producer_id=1, first_offset=1)])
    offsets = [record.offset for span in spans for record in decode_batches(span)]
    assert [offset for offset in offsets if offset not in (4, 5, 7)] == [0, 2, 3, 6]


def test_nothing_aborted_is_one_span():
    log = memoryview(batch(0, [b"a"]) + batch(1, [b"b"]))
    assert [bytes(span) for span in committed(log, [])] == [bytes(log)]
