"""Keep a Delta table in step with a topic, in a process that kills itself at a commit of the table.

python mirroring_driver.py SERVERS TOPIC TABLE CHECKPOINT TYPE COMMIT before|after
"""

from __future__ import annotations

import os
import signal
import sys

from penstock.spark import DeltaTarget, Edit, apply_changes, read_changes
from penstock.spark.launching.session import build_session


class DeadlyTable(DeltaTarget):
    """A table of which one commit, counted from 1, is the last thing that the process does."""

    def __init__(self, path: str, commit: int, *, is_done: bool) -> None:
        super().__init__(path)
        self._left = commit
        self._is_done = is_done

    def write(self, edit: Edit, writer: str, batch: int) -> None:
        self._left -= 1
        if self._left == 0 and not self._is_done:
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(edit, writer, batch)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    servers, topic, path, checkpoint, scd_type, commit, moment = sys.argv[1:]
    spark = build_session("mirroring", "local[2]", profile="quick", share_classes=True)
    records = (
        spark.readStream.format("penstock")
        .options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="20")
        .option("kafka.bootstrap.servers", servers)
        .load()
    )
    apply_changes(
        read_changes(records),
        DeadlyTable(path, int(commit), is_done=moment == "after"),
        keys="id",
        checkpoint_location=checkpoint,
        stored_as_scd_type=scd_type,
        trigger={"availableNow": True},
    ).awaitTermination()


if __name__ == "__main__":
    main()
