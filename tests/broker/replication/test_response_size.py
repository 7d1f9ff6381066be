"""How much a follower asks for at once."""

from penstock.broker.replication.response_size import FAR_S, LEAST_BYTES, NEAR_S, ResponseSize

MOST_BYTES = 10 * 1024 * 1024


def test_a_leader_far_away_is_asked_for_more_up_to_what_is_configured() -> None:
    size = ResponseSize(MOST_BYTES)
    asked = []
    for _ in range(5):
        asked.append(size.bytes)
        size.answered(2 * FAR_S, size.bytes)
    assert asked == [LEAST_BYTES, 2 * LEAST_BYTES, 4 * LEAST_BYTES, 8 * LEAST_BYTES, MOST_BYTES]
    for _ in range(5):
        size.answered(NEAR_S / 2, size.bytes)
    assert size.bytes == LEAST_BYTES, "and for less again when it is near"


def test_answers_that_are_not_full_say_nothing() -> None:
    size = ResponseSize(MOST_BYTES)
    size.answered(0.5, LEAST_BYTES // 3)
    assert size.bytes == LEAST_BYTES


def test_less_may_be_configured() -> None:
    size = ResponseSize(1000)
    for took_s in (2 * FAR_S, NEAR_S / 2):
        assert size.bytes == 1000
        size.answered(took_s, 1000)
    assert size.bytes == 1000
