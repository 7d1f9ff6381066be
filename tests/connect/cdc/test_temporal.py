"""Dates, times and intervals of PostgreSQL's texts, against Python's own within the years 1 to 9999."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connect.cdc.civil import civil_of_days, days_of_civil, iso_timestamp
from penstock.connect.cdc.postgres.temporal import (
    days_of_date,
    iso_interval,
    micros_of_time,
    micros_of_timestamp,
    read_interval,
)
from penstock.connect.errors import DataError

EPOCH = datetime.datetime(1970, 1, 1)


@given(st.dates())
def test_days_are_those_of_python(date: datetime.date) -> None:
    assert days_of_date(date.isoformat()) == (date - EPOCH.date()).days


@given(st.integers(-2_500_000, 2_200_000_000))
def test_days_and_civil_dates_are_inverse(days: int) -> None:
    assert days_of_civil(*civil_of_days(days)) == days


@given(st.datetimes(), st.timedeltas(datetime.timedelta(hours=-15), datetime.timedelta(hours=15)))
def test_timestamps_with_zones_are_those_of_python(
    moment: datetime.datetime, offset: datetime.timedelta
) -> None:
    offset = datetime.timedelta(minutes=offset // datetime.timedelta(minutes=1))
    zoned = moment.replace(tzinfo=datetime.timezone(offset))
    micros = (moment - EPOCH - offset) // datetime.timedelta(microseconds=1)
    assert micros_of_timestamp(zoned.isoformat(sep=" ")) == micros
    assert micros_of_timestamp(moment.isoformat(sep=" ")) == micros + offset // datetime.timedelta(
        microseconds=1
    )


@given(st.datetimes())
def test_iso_texts_are_read_by_python(moment: datetime.datetime) -> None:
    micros = (moment - EPOCH) // datetime.timedelta(microseconds=1)
    assert datetime.datetime.fromisoformat(iso_timestamp(micros, 6)) == moment.replace(tzinfo=datetime.UTC)


@pytest.mark.parametrize("read", [days_of_date, micros_of_time, micros_of_timestamp, read_interval])
@pytest.mark.parametrize(
    "text", ["x", "2024-02", "12:34:", "1 fortnight", "24-1-1 1:2", "2024-01-01 00:00:00+x"]
)
def test_other_texts_are_errors(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(DataError, match=r"is not a|has no zone"):
        read(text)


def test_each_part_of_an_interval_has_its_sign() -> None:
    assert iso_interval(read_interval("-1 years +2 mons -3 days -04:05:06.7")) == "P-1Y2M-3DT-4H-5M-6.7S"
