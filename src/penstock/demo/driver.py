"""The process that runs the application: ``python -m penstock.demo.driver SETTINGS``.

It is a separate process so that it can be killed like any other. SETTINGS is JSON, see `Settings`. The
process writes one JSON object per line to stdout: ``{"started": …}``, then a line for each batch. It stops
when its stdin ends, which also happens when its parent dies.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from penstock.demo.application import build
from penstock.demo.topics import Topics

REPORT_EVERY_S: Final = 0.1
MAX_OFFSETS_PER_TRIGGER: Final = 60_000
"""Large enough to keep Spark's cost per batch small, small enough for frequent results."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The process's settings. `log` is the file for Spark's log; `checkpoint` is a directory."""

    bootstrap_servers: str
    prefix: str
    checkpoint: str
    log: str

    def to_text(self) -> str:
        return json.dumps(asdict(self))


def run(settings: Settings) -> None:
    """Run the application until stdin ends or the application fails."""
    from penstock.spark.launching.java import find_java
    from penstock.spark.launching.session import build_session

    begun_s = time.monotonic()
    app = build(Topics(settings.prefix))
    stopped = threading.Event()
    threading.Thread(target=_wait_for_end_of_input, args=(stopped,), daemon=True).start()
    spark = build_session("penstock demo", profile="quick", log_file=Path(settings.log))
    with app.start(
        bootstrap_servers=settings.bootstrap_servers,
        checkpoint=settings.checkpoint,
        spark=spark,
        options={"maxOffsetsPerTrigger": str(MAX_OFFSETS_PER_TRIGGER)},
    ) as running:
        java = str(find_java().version)
        _say(started=time.monotonic() - begun_s, spark=spark.version, java=java)
        last = -1
        while running.is_running and not stopped.wait(REPORT_EVERY_S):
            progress = running.progress()
            if progress is not None and progress.batch_id != last:
                last = progress.batch_id
                _say(
                    batch=progress.batch_id,
                    records=progress.records,
                    records_per_second=progress.records_per_second,
                    batch_ms=progress.batch_ms,
                    state_bytes=progress.state_bytes,
                )


def _wait_for_end_of_input(stopped: threading.Event) -> None:
    sys.stdin.read()
    stopped.set()


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        run(Settings(**json.loads(sys.argv[1])))
    except Exception as error:
        _say(failed=f"{type(error).__name__}: {error}")
        raise


if __name__ == "__main__":
    main()
