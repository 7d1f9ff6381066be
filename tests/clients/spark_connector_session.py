"""A Spark session with Spark's own Kafka connector, which runs a series of checks.

Arguments: the connector's jars (comma separated), the node's address, a directory for checkpoints. Spark
loads jars when its JVM starts, so this is a separate process that cannot share the session of other tests. It
prints the result or the failure of each check.
"""

import sys
import traceback
from pathlib import Path

import spark_kafka_connector
import spark_source_options

from penstock.spark.launching.session import build_session


def main(jars: str, servers: str, scratch: Path) -> int:
    conf = {"spark.jars": jars, "spark.sql.shuffle.partitions": "1"}
    # intentional errors would fill the log
    spark = build_session(
        "spark-connector", "local[2]", conf, profile="quick", log_level="off", share_classes=True
    )
    failed = 0
    for check in (spark_kafka_connector.check, spark_source_options.check):
        try:
            print(check(spark, servers, scratch), flush=True)
        except Exception:
            traceback.print_exc(file=sys.stdout)
            failed += 1
    spark.stop()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
