"""`python -m views`: lookups in the process and over HTTP while a million keys are updated.

It starts a node, a writer, and the processes that query. By default the writer publishes changelogs itself,
as a query does, one transaction for each trigger; with ``--spark`` it writes the input of the application,
which runs in Spark. The exit status is 1 if a figure misses its goal.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Cluster
from views.application import build
from views.child import Child
from views.schedule import INPUT

KINDS = ("process", "http")
_PREPARE_NS = 6_000_000_000
_AGE_S = 1.0
_AGE_IN_SPARK_S = 4.0
LATENCY_P99_MS = 10.0
STALENESS_BEYOND_TRIGGER_MS = 50.0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"setting": vars(options)}
    with Cluster(fork=False) as cluster, tempfile.TemporaryDirectory() as checkpoint:
        servers = cluster.bootstrap_servers
        topology = build().topology()
        _create(servers, {INPUT: options.partitions}, topology)
        shared = {
            "servers": servers,
            "keys": options.keys,
            "partitions": options.partitions,
            "updates_per_s": options.updates,
            "to": "input" if options.spark else "changelog",
            "trigger_ms": options.trigger_ms,
        }
        loader = Child("views.writer", json.dumps(shared | {"step": "load"}))
        loader.told()
        loader.wait()
        runner = Child("views.runner", servers, checkpoint) if options.spark else None
        if runner is not None:
            runner.told()
        for kind in options.kinds:
            found[kind] = _run(kind, servers, shared, options)
            print(f"{kind}: {json.dumps(found[kind])}", flush=True)
        if runner is not None:
            runner.end()
            found["spark"] = runner.told()
            runner.wait()
    return found


def _run(kind: str, servers: str, shared: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    holder = Child("views.reader", "process" if kind == "process" else "server", servers)
    start = holder.told()
    load_before = os.getloadavg()[0]
    asker = holder if kind == "process" else Child("views.reader", "http", start["endpoint"])
    start_ns = time.monotonic_ns() + _PREPARE_NS
    age_s = _AGE_IN_SPARK_S if options.spark else _AGE_S
    schedule = {
        "start_ns": start_ns,
        "keys": options.keys,
        "updates_per_s": options.updates,
        "age_s": age_s,
    }
    rate = {"lookups_per_s": options.lookups, "seconds": options.seconds}
    writing = {"step": "write", "start_ns": start_ns, "seconds": options.seconds + age_s + 0.5}
    writer = Child("views.writer", json.dumps(shared | writing))
    asker.tell(**schedule, **rate)
    measured = asker.told()
    written = writer.told()
    if asker is not holder:
        holder.end()
        measured |= holder.told()
    commits = written.pop("commit_ms")
    if commits:
        written["commit_ms_p99"] = round(commits[int(0.99 * (len(commits) - 1))], 1)
    for child in {asker, holder, writer}:
        child.wait()
    loads = {"load_before": load_before, "load_after": os.getloadavg()[0]}
    return {"start": start, "measured": measured, "writer": written, **loads}


def _create(servers: str, counts: dict[str, int], topology: Any) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    internal = topology.internal_topics(counts).values()
    topics = [NewTopic(name, count, 1) for name, count in counts.items()]
    topics += [NewTopic(topic.name, topic.partitions, 1, config=dict(topic.config)) for topic in internal]
    for future in admin.create_topics(topics).values():
        future.result(30)


def judge(found: dict[str, Any]) -> list[str]:
    """Return the figures that miss their goals. With Spark, a record also waits for the current batch."""
    setting = found["setting"]
    spark = found.get("spark")
    waited_ms = 2 * spark["trigger_ms"]["p99"] if spark else setting["trigger_ms"]
    beyond = []
    for kind in setting["kinds"]:
        measured = found[kind]["measured"]
        latency, staleness = measured["latency_ms"]["p99"], measured["staleness_ms"]["p99"]
        if latency > LATENCY_P99_MS:
            beyond.append(f"{kind}: lookups p99 {latency} ms, expected at most {LATENCY_P99_MS:g}")
        bound = waited_ms + STALENESS_BEYOND_TRIGGER_MS
        if staleness > bound:
            beyond.append(f"{kind}: staleness p99 {staleness} ms, expected at most {bound:g}")
        if measured["wrong"]:
            beyond.append(f"{kind}: {measured['wrong']} lookups found nothing")
    return beyond


def main() -> int:
    parser = argparse.ArgumentParser(prog="views", description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--updates", type=int, default=10_000, help="a second")
    parser.add_argument("--lookups", type=int, default=1_000, help="a second")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--trigger-ms", type=int, default=200, help="without --spark")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of lookups")
    parser.add_argument("--spark", action="store_true", help="run the application")
    options = parser.parse_args()
    found = measure(options)
    print(json.dumps(found, indent=2))
    beyond = judge(found)
    print("\n".join(beyond) if beyond else "within the goals")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
