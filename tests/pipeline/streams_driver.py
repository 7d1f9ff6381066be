"""Run an application in a process that a test may kill: ``streams_driver.py SERVERS CHECKPOINT UNTIL``."""

from __future__ import annotations

import sys

from penstock.spark.launching.session import build_session
from penstock.streams import App, string

WORDS, TOTALS, SUMS = "words", "totals", "sums"


def killed_app() -> App:
    """A table and one derived from it by a repartition topic: each batch reads results of the last one."""
    app = App("killed", key=string, value=string)
    counts = app.stream(WORDS).group_by_key().count(store="counts")
    counts.to_stream().to(TOTALS)
    by_letter = counts.group_by(lambda word, n: (word[0], n))
    by_letter.sum(store="sums").to_stream().to(SUMS)
    return app


def main() -> None:
    servers, checkpoint, until = sys.argv[1:]
    spark = build_session("killed", "local[2]", profile="quick", share_classes=True)
    running = killed_app().start(
        bootstrap_servers=servers,
        checkpoint=checkpoint,
        spark=spark,
        until="drained" if until == "drained" else "stopped",
        shuffle_partitions=2,
        options={"maxOffsetsPerTrigger": "100", "kafka.transaction.timeout.ms": "10000"},
    )
    while running.progress() is None and not running.wait(0.05):
        pass
    print("first batch done", running.progress(), flush=True)
    running.wait()


if __name__ == "__main__":
    main()
