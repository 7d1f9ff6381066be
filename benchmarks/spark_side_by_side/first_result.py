"""An application from start to end: it creates a session, and copies from topic to topic until it is ended.

The usage is:

    python -m spark_side_by_side.first_result SIDE SERVERS JARS SOURCE TARGET CHECKPOINT PROFILE
        [JAVA_OPTION...]
"""

from __future__ import annotations

import sys

from penstock.spark.launching.profiles import ProfileName
from penstock.spark.launching.session import build_session
from spark_side_by_side.queries import Queries, Query
from spark_side_by_side.sides import LOW_LATENCY, SESSION_SETTINGS, side_named


def main(
    side: str,
    servers: str,
    jars: str,
    source: str,
    target: str,
    checkpoint: str,
    profile: ProfileName,
    *java_options: str,
) -> None:
    settings = {**SESSION_SETTINGS, **({"spark.jars": jars} if jars else {})}
    if java_options:
        settings["spark.driver.extraJavaOptions"] = " ".join(java_options)
    spark = build_session("first-result", "local[*]", settings, profile=profile)
    query = Query("copy", source, target=target, settings=LOW_LATENCY)
    started = Queries(spark, side_named(side), servers).start(query, checkpoint, to_the_end=False)
    sys.stdin.read()  # until the harness has received the result
    started.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]  # the profile is a string, too
