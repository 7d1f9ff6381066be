"""The maximum response size that a follower requests."""

from penstock.broker.following.response_size import NEAR_BYTES, NEAR_S, ResponseSize

MOST_BYTES = 10 * NEAR_BYTES


def after(*answers_s: float, most_bytes: int = MOST_BYTES) -> int:
    size = ResponseSize(most_bytes)
    for took_s in answers_s:
        size.answered(took_s)
    return size.bytes


def test_the_longer_the_way_the_more_up_to_what_is_configured() -> None:
    assert after(NEAR_S / 10) == NEAR_BYTES
    assert after(3 * NEAR_S) == 3 * NEAR_BYTES
    assert after(100 * NEAR_S) == MOST_BYTES


def test_an_answer_that_was_held_back_says_nothing_of_the_way() -> None:
    assert after(0.5, NEAR_S, 0.5) == NEAR_BYTES


def test_before_the_first_answer_nothing_is_held_back() -> None:
    assert after() == MOST_BYTES


def test_less_may_be_configured() -> None:
    assert after(NEAR_S, most_bytes=1000) == 1000
