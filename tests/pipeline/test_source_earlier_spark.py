"""Batch reads on earlier versions of Spark that have Python data sources, in sessions of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from filelock import FileLock

import penstock
from maven_jars import cache_root
from penstock.spark.launching.java import find_java, launch_home

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

VERSIONS = ("4.0.1", "4.1.1", "4.2.0")

PROGRAM = """
import json
import sys

from pyspark.sql import SparkSession

local = {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
spark = SparkSession.builder.master("local[2]").config(map=local).getOrCreate()
options = json.loads(sys.argv[1])


def refused(start):
    try:
        start()
    except Exception as error:
        return str(error)


source = spark.read.format("penstock").options(**options)
rows = source.option("includeHeaders", True).load()
decoded = source.option("valueFormat", "json").option("valueSchema", "n BIGINT").load()
print(json.dumps({
    "version": spark.version,
    "schema": rows.schema.simpleString(),
    "rows": [row.asDict(recursive=True) for row in rows.orderBy("partition", "offset").collect()],
    "sum": decoded.selectExpr("sum(value.n)").first()[0],
    "stream": refused(lambda: spark.readStream.format("penstock").options(**options).load().writeStream
                      .format("noop").option("checkpointLocation", sys.argv[2]).start().awaitTermination()),
    "write": refused(lambda: rows.write.format("penstock").options(**options).mode("append").save()),
}, default=lambda value: value.decode() if isinstance(value, bytes | bytearray) else str(value)))
spark.stop()
"""


@pytest.fixture(params=VERSIONS)
def installed(request: pytest.FixtureRequest) -> Path:
    """The directory of that pyspark; skip the test with a reason if it cannot be fetched."""
    home = cache_root() / f"pyspark-{request.param}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if not (home / "pyspark").exists():
            command = ["install", "--quiet", "--no-deps", "--target", str(home), f"pyspark=={request.param}"]
            done = subprocess.run([sys.executable, "-m", "pip", *command], capture_output=True, check=False)
            if done.returncode:
                pytest.skip(f"pyspark {request.param} cannot be fetched: {done.stderr[-200:].decode()}")
    return home


def test_topics_are_read_and_the_rest_is_refused_by_name(
    installed: Path, servers: str, admin: AdminClient, tmp_path: Path
) -> None:
    topic = f"earlier-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": servers})
    for n in range(10):
        headers = [("h", b"x")] if n == 0 else None
        producer.produce(
            topic, b'{"n": %d}' % n, b"k%d" % n, n % 2, timestamp=1_700_000_000_123 + n, headers=headers
        )
    assert producer.flush(30) == 0
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    found = run(installed, json.dumps(options), str(tmp_path))
    assert installed.name == f"pyspark-{found['version']}"
    assert found["schema"] == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert found["rows"][0] == {
        "key": "k0",
        "value": '{"n": 0}',
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": "2023-11-14 22:13:20.123000",
        "timestampType": 0,
        "headers": [{"key": "h", "value": "x"}],
    }
    in_order = (*range(0, 10, 2), *range(1, 10, 2))
    assert [row["value"] for row in found["rows"]] == [json.dumps({"n": n}) for n in in_order]
    assert found["sum"] == 45
    assert f"streaming reads with penstock need Spark 4.3, found {found['version']}" in found["stream"]
    assert f"writes with penstock need Spark 4.3, found {found['version']}" in found["write"]


def run(installed: Path, *words: str) -> Any:
    paths = [str(installed), str(Path(penstock.__file__).parents[1])]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env={
            **environment,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(launch_home(find_java())),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
