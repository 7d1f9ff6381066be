"""Examples of docs pages that need Spark, run unchanged but for addresses and the names of topics."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from penstock.testing import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.long]

DOCS = Path(__file__).parents[2] / "docs"
ORDERS = [b'{"id": 1, "amount": 2.5}', b'{"id": 2, "amount": 0.5}']


def test_views_and_tables_of_sql(
    spark: SparkSession, servers: str, make_topic: Callable[..., str], produce: Callable[..., None]
) -> None:
    orders, loud = make_topic(), make_topic()
    produce(orders, ORDERS, key="anna")
    read, write, tables = (
        block.replace("127.0.0.1:9092", servers)
        .replace("'orders'", f"'{orders}'")
        .replace("'loud-orders'", f"'{loud}'")
        for block in re.findall(r"```sql\n(.*?)```", (DOCS / "pyspark.md").read_text(), re.DOTALL)
    )
    try:
        assert run(spark, read)[-1] == [Row(key="anna", id=1, amount=2.5)]
        run(spark, write)
        done = run(spark, tables)
        assert done[1] == [Row(**{"count(1)": 2})]
        with pytest.raises(AnalysisException, match=r"found no options: .*SELECT … FROM table WITH \(…\)"):
            spark.sql("SELECT count(*) FROM order_records").collect()
        values = spark.read.format("penstock").options(
            **{"kafka.bootstrap.servers": servers, "subscribe": loud, "valueFormat": "string"}
        )
        assert {row.value for row in values.load().collect()} == {
            '{"ID":1,"AMOUNT":2.5}',
            '{"ID":2,"AMOUNT":0.5}',
            "tea",
        }
    finally:
        for name in ("orders", "loud_orders"):
            spark.catalog.dropTempView(name)
        for name in ("order_records", "order_sink"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_the_test_of_a_query_with_one_checkpoint(
    spark: SparkSession, penstock_cluster: Cluster, penstock_topic: str, tmp_path: Path
) -> None:
    examples = re.findall(r"```python\n(.*?)```", (DOCS / "testing.md").read_text(), re.DOTALL)
    [example] = [each for each in examples if "build_session" in each]
    names: dict[str, Any] = {}
    exec(compile(example, "docs/testing.md", "exec"), names)
    names["test_a_second_run_continues_after_the_first"](spark, penstock_cluster, penstock_topic, tmp_path)


def run(spark: SparkSession, statements: str) -> list[list[Row]]:
    """Run statements that end with a semicolon each, and return their rows."""
    return [spark.sql(statement).collect() for statement in statements.split(";") if statement.strip()]
