"""The transformations, on small tables written here and on some real days against pandas."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.flights import check, pipeline
from penstock.spark.flights.data import Record, end_record, flight_records, load_frames, table_records
from penstock.spark.flights.expected import expected_delays
from penstock.spark.flights.pipeline import Tables

pytestmark = pytest.mark.spark

RAW_SCHEMA = "topic string, key binary, value binary, partition int, offset long"


def raw(spark: SparkSession, records: Iterable[Record], topic: str = "t") -> DataFrame:
    """Records as the source gives them, all in one partition."""
    rows = [
        (topic, record.key.encode(), None if record.value is None else record.value.encode(), 0, offset)
        for offset, record in enumerate(records)
    ]
    frame = pd.DataFrame(rows, columns=["topic", "key", "value", "partition", "offset"]).astype(object)
    return spark.createDataFrame(frame, RAW_SCHEMA)


def table(spark: SparkSession, frame: pd.DataFrame, keys: list[str], schema: str) -> DataFrame:
    newest = pipeline.latest_per_key(raw(spark, table_records(frame, keys)))
    return pipeline.parse_table(newest, "t", schema).persist()


@pytest.fixture(scope="module")
def small_tables(spark: SparkSession) -> Tables:
    airports = [{"faa": "JFK", "name": "John F Kennedy Intl"}, {"faa": "IAH", "name": "Houston"}]
    rain = {"time_hour": "2013-01-01T10:00:00Z", "precip": 0.1, "visib": 10.0, "wind_speed": None}
    breeze = {"time_hour": "2013-01-01T11:00:00Z", "precip": 0.0, "visib": None, "wind_speed": 24.9}
    weather = [{"origin": "JFK", **hour} for hour in (rain, breeze)]
    return Tables(
        airlines=table(
            spark, pd.DataFrame([{"carrier": "B6", "name": "JetBlue"}]), ["carrier"], pipeline.AIRLINE_SCHEMA
        ),
        airports=table(spark, pd.DataFrame(airports), ["faa"], pipeline.AIRPORT_SCHEMA),
        planes=table(
            spark, pd.DataFrame([{"tailnum": "N1", "seats": 200}]), ["tailnum"], pipeline.PLANE_SCHEMA
        ),
        weather=table(spark, pd.DataFrame(weather), ["origin", "time_hour"], pipeline.WEATHER_SCHEMA),
    )


def flight(sched_dep: str, dep_delay: int | None, **fields: object) -> Record:
    event: dict[str, object] = {
        "event": "flight",
        "sched_dep": sched_dep,
        "carrier": "B6",
        "flight": 1,
        "tailnum": "N1",
        "origin": "JFK",
        "dest": "IAH",
        "dep_delay": dep_delay,
    }
    return Record("k", json.dumps(event | fields))


def delays(spark: SparkSession, records: list[Record], tables: Tables) -> list[dict[str, Any]]:
    rows = pipeline.delay_records(raw(spark, records), tables).collect()
    return sorted((json.loads(row["value"]) for row in rows), key=lambda row: (row["hour"], row["carrier"]))


def test_one_hour_of_one_carrier(spark: SparkSession, small_tables: Tables) -> None:
    flights = [
        flight("2013-01-01T10:00:00Z", 20, flight=7),
        flight("2013-01-01T10:30:00Z", -5, tailnum="unknown"),
        flight("2013-01-01T10:59:00Z", 20, flight=9, dest="SJU"),
        flight("2013-01-01T10:59:00Z", None),
        flight("2013-01-01T11:00:00Z", 15),
        end_record(1_400_000_000_000),
    ]
    first, second = delays(spark, flights, small_tables)
    assert first == {
        "hour": "2013-01-01T10:00:00Z",
        "origin": "JFK",
        "airport": "John F Kennedy Intl",
        "carrier": "B6",
        "airline": "JetBlue",
        "flights": 4,
        "cancelled": 1,
        "delayed": 2,
        "delay_sum": 35,
        "delay_mean": 35 / 3,
        "delay_max": 20,
        "worst_flight": 9,  # of two with the same delay, the higher number
        "worst_destination": "SJU",  # in no table: the code stands for the name
        "seats": 600,
        "bad_weather": 4,
    }
    assert second["delayed"] == 0  # fifteen minutes are not late yet
    assert second["bad_weather"] == 0


def test_an_hour_in_which_nothing_left(spark: SparkSession, small_tables: Tables) -> None:
    (row,) = delays(
        spark,
        [flight("2013-02-08T20:00:00Z", None, carrier="ZZ", origin="EWR", tailnum=None)],
        small_tables,
    )
    assert row["cancelled"] == row["flights"] == 1
    assert row["delay_sum"] is row["delay_mean"] is row["delay_max"] is row["worst_flight"] is None
    assert row["airline"] is row["airport"] is None
    assert row["seats"] == 0


def test_a_table_is_the_newest_value_of_each_key(spark: SparkSession) -> None:
    records = [
        Record("AA", '{"carrier": "AA", "name": "old"}'),
        Record("BB", '{"carrier": "BB", "name": "gone"}'),
        Record("AA", '{"carrier": "AA", "name": "new"}'),
    ]
    tombstone = raw(spark, records).where("key = 'BB'").selectExpr(
        "topic", "key", "cast(null as binary) value", "partition", "offset + 9 as offset"
    )  # fmt: skip
    newest = pipeline.latest_per_key(raw(spark, records).union(tombstone))
    rows = pipeline.parse_table(newest, "t", pipeline.AIRLINE_SCHEMA).collect()
    assert [tuple(row) for row in rows] == [("AA", "new")]


def test_three_real_days_as_pandas_has_them(spark: SparkSession) -> None:
    frames = load_frames(days=3)
    tables = Tables(
        airlines=table(spark, frames.airlines, ["carrier"], pipeline.AIRLINE_SCHEMA),
        airports=table(spark, frames.airports, ["faa"], pipeline.AIRPORT_SCHEMA),
        planes=table(spark, frames.planes, ["tailnum"], pipeline.PLANE_SCHEMA),
        weather=table(spark, frames.weather.head(500), ["origin", "time_hour"], pipeline.WEATHER_SCHEMA),
    )
    records = pipeline.delay_records(raw(spark, flight_records(frames.flights)), tables)
    by_spark = check.result_frame(row["value"] for row in records.collect())
    by_pandas = check.comparable(expected_delays(frames))
    comparison = check.compare("Spark", by_spark, "pandas", by_pandas)
    assert comparison.differences == []
    assert comparison.rows > 900
