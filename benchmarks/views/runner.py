"""The application in Spark, until its input ends: ``python -m views.runner SERVERS CHECKPOINT``.

It reports when its first batches are done, and at the end how long triggers took.
"""

from __future__ import annotations

import json
import sys

from views.application import build
from views.lookups import percentiles


def main() -> None:
    servers, checkpoint = sys.argv[1:]
    running = build().start(bootstrap_servers=servers, checkpoint=checkpoint, profile="low-latency")
    running.wait_until_read()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.read()
    batches = [done.batch_ms for done in running.recent_progress() if done.records]
    print(json.dumps({"trigger_ms": percentiles([float(ms) for ms in batches])}), flush=True)
    running.stop()


if __name__ == "__main__":
    main()
