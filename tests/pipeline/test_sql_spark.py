"""SQL on Spark: a script's queries write the same records there as without it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from streams_node import Node

from penstock.sql import parse_script
from penstock.sql.analysis import analyze
from penstock.sql.analysis.plan import Sink
from penstock.sql.catalog import Catalog
from penstock.sql.planning import build_app
from penstock.streams import TopologyTest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        os.environ.get("PENSTOCK_STREAMS_SPARK") != "all",
        reason="half a minute: PENSTOCK_STREAMS_SPARK=all, or make soak-streams",
    ),
]

PARTITIONS = 2
SCRIPT = """
CREATE STREAM orders (id STRING KEY, customer INT, price DECIMAL(6, 2), tags ARRAY<STRING>)
  WITH (KAFKA_TOPIC='sql-orders', FORMAT='JSON', PARTITIONS=2);
CREATE TABLE customers (id INT PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC='sql-customers', FORMAT='JSON', PARTITIONS=2);
CREATE TABLE totals WITH (KAFKA_TOPIC='sql-totals') AS
  SELECT c.name, COUNT(*) AS n, SUM(o.price) AS total, MIN(o.tags[1]) AS first
  FROM orders o JOIN customers c ON o.customer = c.id
  WINDOW TUMBLING (SIZE 1 MINUTE) WHERE o.price > 1.5 GROUP BY c.name;
"""


def test_a_query_on_spark_writes_what_it_writes_without(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    """The script has a filter, two joins behind repartition topics, windows and four kinds of values."""
    catalog, apps = Catalog(), []
    for number, read in enumerate(parse_script(SCRIPT, {})):
        found = analyze(read.statement, catalog, SCRIPT, read.place.offset)
        catalog = found.catalog
        if found.plan is not None and isinstance(found.plan.root, Sink):
            settings = {"auto.offset.reset": "earliest"}
            made = build_app(found.plan, query_id=f"CTAS_{number}", catalog=catalog, settings=settings)
            apps.append(made.app)
    [app] = apps
    records = [("sql-customers", b"%d" % n, b'{"NAME":"customer %d"}' % (n % 3), 1_000) for n in range(4)]
    records += [
        (
            "sql-orders",
            b'"o%d"' % n,
            b'{"CUSTOMER":%d,"PRICE":%d.50,"TAGS":["t%d"]}' % (n % 5, n % 4, n % 2),
            2_000 + 7_000 * n,
        )
        for n in range(60)
    ]
    test = TopologyTest(app, partitions=PARTITIONS)
    node = Node(servers)
    node.create(PARTITIONS, "sql-orders", "sql-customers", "sql-totals")
    for topic, key, value, at in records:
        test.input(topic).pipe_bytes(key, value, timestamp=at)
    node.write(records)
    running = app.start(
        bootstrap_servers=servers, checkpoint=tmp_path, spark=spark, until="drained", shuffle_partitions=1
    )
    assert running.wait(60)
    written = [(key, value, at) for _, _, key, value, at, _ in test._written["sql-totals"]]
    assert len(written) > 20
    assert last_of(node.read("sql-totals")) == last_of(written)


def last_of(records: list[tuple[Any, Any, int]]) -> dict[bytes, tuple[bytes, int]]:
    """The last row of each key; the earlier ones depend on which of two topics was read first."""
    return {bytes(key): (bytes(value), at) for key, value, at in records}
