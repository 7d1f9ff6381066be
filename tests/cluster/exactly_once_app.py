"""The streams application that test_kill_exactly_once kills.

It has two tables. The second reads from a repartition topic, in the next batch, what the first one wrote.

Its outputs are those of the shape `stateful` (`exactly_once_query`), and the sums by parity of the number of
records of each key.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

from exactly_once_query import GROUP, PATIENCE, SINK_CLIENT, SOURCE, TOPICS, TRANSACTION_TIMEOUT_MS, Watched
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from penstock.spark.streams.query import packed_rows
from penstock.spark.streams.query.datasource import StreamsDataSource
from penstock.spark.streams.query.sink import ExactlyOnceStreamsWriter
from penstock.spark.streams.running.application import RunningApp
from penstock.streams import App, long, string

SUMS: Final = "sums"


def killed_app() -> App:
    app = App(GROUP, key=string, value=string)
    numbered = (
        app.stream(SOURCE)
        .group_by_key()
        .aggregate(lambda: "", lambda _, value, before: f"{value} {count_of(before)}", store="numbered")
    )
    for parity, topic in enumerate(TOPICS):
        numbered.to_stream().filter(lambda key, _, parity=parity: int(key) % 2 == parity).to(topic)
    by_parity = numbered.group_by(
        lambda key, value: (str(int(key) % 2), count_of(value)), value=long, name="by-parity"
    )
    by_parity.sum(store="sums").to_stream().to(SUMS)
    return app


def count_of(numbered: str) -> int:
    """The number of records including this one."""
    return int(numbered.split()[2]) + 1 if numbered else 0


class WatchedStreamsWriter(Watched, ExactlyOnceStreamsWriter):
    pass


class KilledStreamsSource(StreamsDataSource):
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        plan = self._plan
        patience_ms = int(os.environ[PATIENCE])
        client = replace(
            plan.sink.client,
            client_id=SINK_CLIENT,
            api_timeout_ms=patience_ms,
            request_timeout_ms=patience_ms,
        )
        writer = WatchedStreamsWriter(replace(plan.sink, client=client), driver=plan.driver)
        writer.recover()
        return writer


def start(session: SparkSession, servers: str, checkpoint: str) -> RunningApp:
    packed_rows.StreamsDataSource = KilledStreamsSource  # type: ignore[misc]
    patience_ms = os.environ[PATIENCE]
    options = {
        "maxOffsetsPerTrigger": "2000",
        "kafka.default.api.timeout.ms": patience_ms,
        "kafka.request.timeout.ms": patience_ms,
        "kafka.delivery.timeout.ms": patience_ms,
        "kafka.transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
    }
    return killed_app().start(
        bootstrap_servers=servers,
        checkpoint=checkpoint,
        spark=session,
        shuffle_partitions=2,
        options=options,
    )
