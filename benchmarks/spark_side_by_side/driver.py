"""The process with the Spark session: it reads queries as lines of JSON and answers each with a line of JSON.

    python -m spark_side_by_side.driver SIDE SERVERS JARS SCRATCH

JARS are the connector's, separated by commas. The harness is a separate process, so that the cost of this
process and its descendants is Spark's.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.spark.launching.session import build_session
from penstock.spark.progress import read_progress
from spark_side_by_side.queries import Queries, Query
from spark_side_by_side.sides import SESSION_SETTINGS, side_named

RUN_TIMEOUT_S = 600


def main(side: str, servers: str, jars: str, scratch: Path) -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # Spark's own output must not mix with the answers
    settings = {**SESSION_SETTINGS, **({"spark.jars": jars} if jars else {})}
    spark = build_session("bench-spark", "local[*]", settings)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "2000")
    answers.write(json.dumps({"ready": spark.version}) + "\n")
    queries = Queries(spark, side_named(side), servers)
    for number, line in enumerate(sys.stdin):
        for answer in _obey(json.loads(line), queries, str(scratch / f"checkpoint-{number}")):
            answers.write(json.dumps(answer) + "\n")
    spark.stop()


def _obey(command: dict[str, Any], queries: Queries, checkpoint: str) -> Iterator[dict[str, Any]]:
    """Answer each command once; one that starts a query also answers the next line, which ends the query."""
    query = Query(**command["query"])
    try:
        if command["to_the_end"]:
            started = queries.start(query, checkpoint, to_the_end=True)
            if not started.awaitTermination(RUN_TIMEOUT_S):
                started.stop()
                raise TimeoutError(f"{query} took more than {RUN_TIMEOUT_S} s")
        else:
            started = queries.start(query, checkpoint, to_the_end=False)
            yield {"started": True}
            sys.stdin.readline()
            started.stop()
        yield {"batches": [_batch(progress) for progress in started.recentProgress]}
    except Exception as error:
        yield {"error": f"{type(error).__name__}: {error}"[:2000]}


def _batch(progress: Any) -> dict[str, Any]:
    fields = json.loads(progress.json)
    began_s = datetime.fromisoformat(fields["timestamp"]).timestamp()
    durations_ms = fields["durationMs"]
    return {
        "began_s": began_s,
        "took_ms": durations_ms["triggerExecution"],
        "rows": read_progress(fields).records,  # Spark counts blocks of records for a streams application
        "phases_ms": durations_ms,
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
