"""The main job: departure delays per origin, carrier and hour, enriched from four tables.

Each step is a function from DataFrame to DataFrame and knows nothing of streams, so the continuous query
and the batch check run the very same transformations:

    flights topic → `parse_flights` → `enrich` → `delays_by_hour` → `to_records` → delays topic
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.flights.topics import Topics

FORMAT = "penstock"

# Twice what the replay lets partitions be apart; see replay.py.
WATERMARK_DELAY = "2 days"
WATERMARK_DELAY_MS = 2 * 86_400_000
WINDOW = "1 hour"
WINDOW_MS = 3_600_000

DELAYED_MINUTES = 15  # the usual definition of a delayed departure: more than this
BAD_WEATHER_VISIBILITY_MILES = 3.0
BAD_WEATHER_WIND_MPH = 25.0

FLIGHT_SCHEMA = """
    event string, sched_dep timestamp, carrier string, flight int, tailnum string, origin string,
    dest string, dep_time int, dep_delay int, arr_time int, arr_delay int, air_time int, distance int
"""
AIRLINE_SCHEMA = "carrier string, name string"
AIRPORT_SCHEMA = "faa string, name string"
PLANE_SCHEMA = "tailnum string, seats int"
WEATHER_SCHEMA = "origin string, time_hour timestamp, precip double, visib double, wind_speed double"


@dataclass(frozen=True, slots=True)
class Tables:
    """The four tables as DataFrames, one row a key."""

    airlines: DataFrame
    airports: DataFrame
    planes: DataFrame
    weather: DataFrame


@dataclass(frozen=True, slots=True)
class Source:
    """Where the topics are."""

    spark: SparkSession
    bootstrap_servers: str
    topics: Topics

    def batch(self, *topics: str) -> DataFrame:
        """Everything in `topics` now, in the columns of Spark's Kafka source."""
        return (
            self.spark.read.format(FORMAT)
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("subscribe", ",".join(topics))
            .load()
        )

    def stream(self, topic: str, max_offsets_per_trigger: int) -> DataFrame:
        """`topic` from its beginning and on, the same columns."""
        return (
            self.spark.readStream.format(FORMAT)
            .option("kafka.bootstrap.servers", self.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", max_offsets_per_trigger)
            .load()
        )

    def tables(self) -> Tables:
        """Read the four table topics in one pass and keep them in memory, for all batches of all queries."""
        topics = self.topics
        newest = latest_per_key(
            self.batch(topics.airlines, topics.airports, topics.planes, topics.weather)
        ).persist()
        return Tables(
            airlines=parse_table(newest, topics.airlines, AIRLINE_SCHEMA),
            airports=parse_table(newest, topics.airports, AIRPORT_SCHEMA),
            planes=parse_table(newest, topics.planes, PLANE_SCHEMA),
            weather=parse_table(newest, topics.weather, WEATHER_SCHEMA),
        )


def start_query(
    source: Source, tables: Tables, checkpoint: Path, max_offsets_per_trigger: int
) -> StreamingQuery:
    """Start the continuous query from the flights topic to the delays topic."""
    raw = source.stream(source.topics.flights, max_offsets_per_trigger)
    return (
        delay_records(raw, tables)
        .writeStream.format(FORMAT)
        .queryName("delays")
        .outputMode("append")
        .option("kafka.bootstrap.servers", source.bootstrap_servers)
        .option("topic", source.topics.delays)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def delay_records(raw: DataFrame, tables: Tables) -> DataFrame:
    """The whole job as one function: raw records of the flights topic to records of the delays topic."""
    return to_records(delays_by_hour(enrich(parse_flights(raw), tables)))


def latest_per_key(raw: DataFrame) -> DataFrame:
    """Read topics as tables: each topic's and key's newest value, nothing where that is null (deleted)."""
    newest = raw.groupBy("topic", "key").agg(F.max_by("value", "offset").alias("value"))
    return newest.where(F.col("value").isNotNull())


def parse_table(newest: DataFrame, topic: str, schema: str) -> DataFrame:
    """One topic's rows of `latest_per_key`, parsed."""
    return _parse(newest.where(F.col("topic") == topic), schema)


def parse_flights(raw: DataFrame) -> DataFrame:
    """Parse flight events and put the watermark on their scheduled departure; drop the end event."""
    events = _parse(raw, FLIGHT_SCHEMA).withWatermark("sched_dep", WATERMARK_DELAY)
    # The end event must be seen by the watermark before it goes. A filter on `event` alone would be moved
    # below the watermark by the optimizer; one that also needs the event time stays above.
    return events.where(F.when(F.col("sched_dep").isNotNull(), F.col("event") == "flight"))


def _parse(raw: DataFrame, schema: str) -> DataFrame:
    return raw.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select("row.*")


def enrich(flights: DataFrame, tables: Tables) -> DataFrame:
    """Add `airline`, `airport`, `destination`, `seats` and `bad_weather` to each flight.

    Tables have gaps (a sixth of the tail numbers, four airports): a flight without a match keeps null
    seats, its destination's code for a name, and counts as fair weather.
    """
    airlines = tables.airlines.select("carrier", F.col("name").alias("airline"))
    origins = tables.airports.select(F.col("faa").alias("origin"), F.col("name").alias("airport"))
    destinations = tables.airports.select(F.col("faa").alias("dest"), F.col("name").alias("destination"))
    planes = tables.planes.select("tailnum", "seats")
    weather = tables.weather.select(
        "origin", F.col("time_hour").alias("hour"), _is_bad().alias("bad_weather")
    )
    return (
        flights.withColumn("hour", F.date_trunc("hour", "sched_dep"))
        .join(F.broadcast(airlines), "carrier", "left")
        .join(F.broadcast(origins), "origin", "left")
        .join(F.broadcast(destinations), "dest", "left")
        .join(F.broadcast(planes), "tailnum", "left")
        .join(F.broadcast(weather), ["origin", "hour"], "left")
        .withColumn("destination", F.coalesce("destination", "dest"))
        .withColumn("bad_weather", F.coalesce("bad_weather", F.lit(False)))
    )


def _is_bad() -> Column:
    signs = (
        F.col("precip") > 0,
        F.col("visib") < BAD_WEATHER_VISIBILITY_MILES,
        F.col("wind_speed") >= BAD_WEATHER_WIND_MPH,
    )
    known = [F.coalesce(sign, F.lit(False)) for sign in signs]
    return known[0] | known[1] | known[2]


def delays_by_hour(flights: DataFrame) -> DataFrame:
    """Aggregate enriched flights per hour of scheduled departure, origin and carrier.

    Sums stay integers, and the one quotient is taken from two of them at the end: the result does not
    depend on the order in which rows arrive, so stream, batch and pandas can be compared exactly.
    """
    departed = F.col("dep_delay").isNotNull()
    worst = F.when(departed, F.struct("dep_delay", "flight", "destination"))
    return (
        flights.groupBy(F.window("sched_dep", WINDOW), "origin", "airport", "carrier", "airline")
        .agg(
            F.count(F.lit(1)).alias("flights"),
            F.count_if(~departed).alias("cancelled"),
            F.count_if(F.col("dep_delay") > DELAYED_MINUTES).alias("delayed"),
            F.sum("dep_delay").alias("delay_sum"),
            F.max(worst).alias("worst"),
            F.coalesce(F.sum("seats"), F.lit(0)).alias("seats"),
            F.count_if("bad_weather").alias("bad_weather"),
        )
        .select(
            F.col("window.start").alias("hour"),
            "origin",
            "airport",
            "carrier",
            "airline",
            "flights",
            "cancelled",
            "delayed",
            "delay_sum",
            F.try_divide("delay_sum", F.col("flights") - F.col("cancelled")).alias("delay_mean"),
            F.col("worst.dep_delay").alias("delay_max"),
            F.col("worst.flight").alias("worst_flight"),
            F.col("worst.destination").alias("worst_destination"),
            "seats",
            "bad_weather",
        )
    )


def to_records(delays: DataFrame) -> DataFrame:
    """Make Kafka records: key `JFK B6`, value the row as JSON with every field present."""
    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ssX"}
    return delays.select(
        F.concat_ws(" ", "origin", "carrier").cast("binary").alias("key"),
        F.to_json(F.struct("*"), options).cast("binary").alias("value"),
    )
