"""The thread that reads ahead: order, bounds, errors, and its end."""

import threading
import time

import pytest

from penstock.arrow.read_ahead import read_ahead
from waiting import wait_until


class Source:
    """A source that counts the items taken from it, and records when and where it was closed."""

    def __init__(self, items, error=None):
        self.items = items
        self.error = error
        self.given = 0
        self.closed_by = None

    def __call__(self):
        try:
            for item in self.items:
                self.given += 1
                yield item
            if self.error is not None:
                raise self.error
        finally:
            self.closed_by = threading.current_thread()


def test_all_items_come_in_their_order():
    source = Source(range(1000))
    assert list(read_ahead(source(), lambda item: 1, 3)) == list(range(1000))
    assert source.closed_by not in (None, threading.current_thread())


def test_it_works_while_the_caller_does_something_else_up_to_its_bound():
    source = Source(range(100))
    ahead = read_ahead(source(), lambda item: 10, 35)
    assert next(ahead) == 0
    # four are queued (30 bytes did not reach the limit), and the thread holds the next one
    wait_until(lambda: source.given == 6)
    time.sleep(0.05)
    assert source.given == 6
    assert next(ahead) == 1
    wait_until(lambda: source.given == 7)
    ahead.close()
    wait_until(lambda: source.closed_by is not None)
    assert source.given <= 8


def test_an_item_above_the_bound_is_taken_all_the_same():
    assert list(read_ahead(iter([1, 2, 3]), lambda item: 100, 1)) == [1, 2, 3]


def test_an_error_comes_after_the_items_before_it():
    ahead = read_ahead(Source([1, 2], error=KeyError("lost"))(), lambda item: 1, 10)
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(KeyError, match="lost"):
        next(ahead)


def test_a_caller_that_goes_away_ends_the_thread_even_when_it_waits():
    source = Source(range(100))
    ahead = read_ahead(source(), lambda item: 1, 2)
    next(ahead)
    del ahead
    wait_until(lambda: source.closed_by is not None)
    wait_until(lambda: not source.closed_by.is_alive())


def test_nothing_runs_before_the_first_item_is_asked_for():
    source = Source(range(3))
    ahead = read_ahead(source(), lambda item: 1, 2)
    time.sleep(0.02)
    assert source.given == 0
    assert list(ahead) == [0, 1, 2]
