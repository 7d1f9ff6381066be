"""The query of a plan without its sink: topics and DataFrames, the shuffle, and the tasks behind it."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from penstock.spark.streams.blocks.rows import PACKED
from penstock.spark.streams.planning.plan import StreamsPlan
from penstock.spark.streams.query.datasource import NAME, PLAN, StreamsDataSource
from penstock.spark.streams.query.frame_source import FrameColumns, packed_frame
from penstock.spark.streams.query.operator import StreamsOperator
from penstock.spark.streams.query.session import active, prepare_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def packed_rows(plan: StreamsPlan, session: SparkSession, plan_text: str | None = None) -> DataFrame:
    """Return a plan's query without its sink, as rows of `PACKED`. The session gets the settings it needs."""
    text = plan_text or plan.to_text()
    prepare_session(session, plan.shuffle_partitions)
    frames = plan.topology.frames
    inputs: list[DataFrame] = []
    with active(session):
        session.dataSource.register(StreamsDataSource)
        if plan.part_of.keys() - plan.shuffled_topics - frames.keys():
            inputs.append(session.readStream.format(NAME).option(PLAN, text).load())
        packed = [packed_frame(name, FrameColumns(*frame.data), text) for name, frame in frames.items()]
        inputs += [_of_session(frame, session) for frame in packed]
        rows = reduce(lambda one, other: one.union(other), inputs)
        if plan.has_shuffle:
            rows = rows.groupBy("group").transformWithState(StreamsOperator(text), PACKED, "Append", "None")
            if plan.read_back and plan.shuffle_partitions > 1:
                rows = rows.repartition(plan.shuffle_partitions, "group")
    return rows


def _of_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Return the same rows in this session.

    A query runs in the session of its first input, with that session's settings and registered sources.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    jvm: Any = session._jvm
    datasets = jvm.org.apache.spark.sql.classic.Dataset
    rows = datasets.ofRows(session._jsparkSession, frame._jdf.queryExecution().analyzed())
    return ClassicDataFrame(rows, session)
