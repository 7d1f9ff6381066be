"""The processes that query: ``python -m views.reader``, arguments as JSON.

``process``: views in the process that queries. ``server``: a node of the views, until its input ends.
``http``: a client of that node.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from typing import Any

from penstock.views import KeyValueView, Views
from penstock.views.server import ViewServer
from views.application import build
from views.lookups import in_process, over_http
from views.schedule import STORE, Schedule


def memory_mb() -> float:
    with open("/proc/self/status") as status:
        kib = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return round(kib / 1024, 1)


def _schedule(given: dict[str, Any]) -> Schedule:
    return Schedule(given["start_ns"], given["keys"], given["updates_per_s"], given["age_s"])


def process(servers: str) -> None:
    before_mb, began = memory_mb(), time.monotonic()
    with Views(build().topology(), bootstrap_servers=servers) as views:
        views.wait_until_ready(300)
        ready_s = time.monotonic() - began
        latest = views.store(STORE, KeyValueView)
        gc.collect()
        _tell(ready_s=ready_s, keys=latest.approximate_count(), memory_mb=memory_mb() - before_mb)
        sys.setswitchinterval(0.001)
        asked = json.loads(sys.stdin.readline())
        cpu_s = time.process_time()
        found = in_process(latest.get, _schedule(asked), asked["lookups_per_s"], asked["seconds"])
        _tell(**found, cpu_s=round(time.process_time() - cpu_s, 2), memory_mb_after=memory_mb() - before_mb)


def server(servers: str) -> None:
    before_mb, began = memory_mb(), time.monotonic()
    node = ViewServer(build().topology(), bootstrap_servers=servers, port=0)

    def tell() -> None:
        node.wait_until_ready()
        ready_s = time.monotonic() - began
        gc.collect()
        _tell(
            ready_s=ready_s,
            keys=node.views.store(STORE).approximate_count(),
            memory_mb=memory_mb() - before_mb,
            endpoint=node.endpoint,
        )
        cpu_s = time.process_time()
        sys.stdin.read()
        _tell(server_cpu_s=round(time.process_time() - cpu_s, 2), memory_mb_after=memory_mb() - before_mb)
        node.close()

    threading.Thread(target=tell, daemon=True).start()
    node.run()


def main() -> None:
    kind, argument = sys.argv[1:]
    if kind == "process":
        process(argument)
    elif kind == "server":
        server(argument)
    else:
        asked = json.loads(sys.stdin.readline())
        cpu_s = time.process_time()
        found = over_http(argument, STORE, _schedule(asked), asked["lookups_per_s"], asked["seconds"])
        _tell(**asyncio.run(found), cpu_s=round(time.process_time() - cpu_s, 2))


def _tell(**found: object) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
