"""Order, sequence numbers and retries of one partition's batches, as an idempotent broker checks them."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.producing.delivery import PartitionQueue, PendingBatch, ProducerIdentity
from penstock.protocol.batch import parse_header, validate
from penstock.protocol.records import Record, decode_batch, encode_batch

IDENTITY = ProducerIdentity(producer_id=7, producer_epoch=3)


def batch(first, count):
    records = [Record(0, 1000 + i, None, b"%d" % (first + i), []) for i in range(count)]
    return PendingBatch(bytearray(encode_batch(records)), count, deadline=0.0)


def values(pending):
    return [int(record.value) for record in decode_batch(pending.data)]


def test_batches_are_numbered_one_after_the_other_with_a_valid_checksum():
    queue = PartitionQueue(IDENTITY, max_in_flight=5)
    for first in (0, 2, 4):
        queue.add(batch(first, 2))
    taken = [queue.take() for _ in range(3)]
    headers = [parse_header(t.data, 0) for t in taken]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [
        (7, 3, s) for s in (0, 2, 4)
    ]
    for one in taken:
        validate(memoryview(one.data))


def test_without_idempotence_one_batch_is_in_flight_and_has_no_number():
    queue = PartitionQueue(None, max_in_flight=5)
    queue.add(batch(0, 1))
    queue.add(batch(1, 1))
    first = queue.take()
    assert queue.next_size is None
    assert parse_header(first.data, 0).base_sequence == -1
    queue.acknowledge(first)
    assert queue.next_size is not None


def test_failed_batches_wait_for_those_in_flight_and_keep_their_numbers():
    queue = PartitionQueue(IDENTITY, max_in_flight=5)
    for first in range(3):
        queue.add(batch(first, 1))
    one, two = queue.take(), queue.take()
    queue.fail(one)
    assert queue.is_resending
    assert queue.next_size is None, "the second is still in flight"
    queue.fail(two)
    assert [queue.take() for _ in range(2)] == [one, two]
    assert [one.base_sequence, two.base_sequence] == [0, 1]
    assert queue.take().base_sequence == 2


def test_parts_of_a_batch_that_was_too_large_share_its_numbers():
    queue = PartitionQueue(IDENTITY, max_in_flight=5)
    queue.add(batch(0, 4))
    queue.add(batch(4, 1))
    queue.replace(queue.take(), [batch(0, 1), batch(1, 3)])
    assert [queue.take().base_sequence for _ in range(3)] == [0, 1, 4]
    assert len(queue) == 3


@given(st.lists(st.integers(1, 3), min_size=1, max_size=12), st.data())
def test_whatever_fails_the_broker_sees_each_record_once_and_in_order(counts, data):
    """The broker takes only the next sequence number, and sometimes loses a request or its response."""
    queue = PartitionQueue(IDENTITY, max_in_flight=5)
    first = 0
    for count in counts:
        queue.add(batch(first, count))
        first += count
    log, requests = [], []
    while len(queue):
        if queue.next_size is not None and (not requests or data.draw(st.booleans(), label="send")):
            requests.append(queue.take())
            continue
        sent = requests.pop(0)
        expected = len(log)
        fate = data.draw(st.sampled_from(["answered", "answered", "lost", "answer lost"]), label="fate")
        appended = fate != "lost" and sent.base_sequence == expected
        if appended:
            log.extend(values(sent))
        is_duplicate = fate != "lost" and sent.base_sequence < expected
        if fate == "answered" and (appended or is_duplicate):
            queue.acknowledge(sent)
        else:
            queue.fail(sent)
    assert log == list(range(first))
