"""Timers compared with a simple model: a dictionary that is searched."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinators.timers import Timers

KEYS = st.sampled_from("abc")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), KEYS, st.integers(0, 20)),
        st.tuples(st.just("cancel"), KEYS, st.just(0)),
        st.tuples(st.just("pop"), st.just(""), st.integers(0, 20)),
        st.tuples(st.just("shift"), st.just(""), st.integers(-5, 5)),
    ),
    max_size=40,
)


@given(STEPS)
def test_timers_fire_when_the_model_says(steps: list[tuple[str, str, int]]) -> None:
    timers, model = Timers(), {}
    for step, key, at_ms in steps:
        if step == "schedule":
            timers.schedule(key, at_ms)
            model[key] = at_ms
        elif step == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        elif step == "shift":
            timers.shift(at_ms)
            model = {name: deadline_ms + at_ms for name, deadline_ms in model.items()}
        else:
            earliest_ms = min(model.values(), default=at_ms + 1)
            fired = timers.pop_due(at_ms)
            if earliest_ms > at_ms:
                assert fired is None
            else:
                assert model.pop(fired) == earliest_ms
        assert len(timers) == len(model)
        assert timers.next_deadline_ms == min(model.values(), default=None)


def test_moving_a_deadline_later_again_and_again_costs_no_memory() -> None:
    timers = Timers()
    for now_ms in range(10_000):
        timers.schedule("session", now_ms + 10_000)
    assert len(timers._heap) == 1
    assert timers.pop_due(10_000) is None
    assert timers.pop_due(19_999) == "session"
    assert timers.pop_due(30_000) is None
