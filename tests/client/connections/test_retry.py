"""The retry policy with a clock of the test's own."""

import pytest

from penstock.client.connections.retry import RetryPolicy
from penstock.client.errors import ProtocolViolation, ServerUnreachable


class Time:
    def __init__(self):
        self.now = 0.0
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def policy(time, timeout_ms=1000, spread=lambda low, high: 1.0):
    return RetryPolicy(timeout_ms, 10, 50, clock=lambda: time.now, sleep=time.sleep, uniform=spread)


def failing(times, error):
    """A function that fails this many times, then returns."""
    left = [times]

    def operation():
        if left[0]:
            left[0] -= 1
            raise error
        return "answer"

    return operation


def test_backoff_doubles_up_to_its_maximum():
    time = Time()
    assert policy(time).run(failing(5, ServerUnreachable("gone"))) == "answer"
    assert time.slept == pytest.approx([0.010, 0.020, 0.040, 0.050, 0.050])


def test_jitter_spreads_by_a_fifth():
    widths = []
    policy(Time(), spread=lambda low, high: widths.append((low, high)) or 1.0).backoff_s(1)
    assert widths == [(0.8, 1.2)]


def test_the_deadline_bounds_all_attempts_and_the_last_error_is_raised():
    time = Time()
    with pytest.raises(ServerUnreachable, match="gone") as caught:
        policy(time, timeout_ms=100).run(failing(99, ServerUnreachable("gone")))
    assert time.now < 0.1
    assert caught.value.__notes__ == ["failed after 4 attempts within 100 ms"]


def test_what_cannot_get_better_is_not_tried_again():
    time = Time()
    with pytest.raises(ProtocolViolation):
        policy(time).run(failing(1, ProtocolViolation("no Kafka")))
    assert time.slept == []
