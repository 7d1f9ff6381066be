"""Durations and times as users write them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from penstock.streams.durations import duration_ms, time_ms


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("10 seconds", 10_000),
        ("1 hour 30 minutes", 5_400_000),
        ("250ms", 250),
        ("1D", 86_400_000),
        ("0 s", 0),
        (timedelta(minutes=5), 300_000),
    ],
)
def test_durations(given: str | timedelta, expected: int) -> None:
    assert duration_ms(given) == expected


@pytest.mark.parametrize(
    "given", ["", "10", "ten seconds", "10 parsecs", "-1 s", "1 s,", timedelta(microseconds=1)]
)
def test_what_is_no_duration(given: str) -> None:
    with pytest.raises(ValueError, match="the gap is"):
        duration_ms(given, "the gap")


def test_a_bare_number_has_no_unit() -> None:
    with pytest.raises(TypeError, match="not 10"):
        duration_ms(10)  # type: ignore[arg-type]


def test_times() -> None:
    assert time_ms(5) == 5
    assert time_ms(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == 0
    with pytest.raises(ValueError, match="time zone"):
        time_ms(datetime(1970, 1, 1))
