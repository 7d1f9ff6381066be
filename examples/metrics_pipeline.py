"""Metrics pipeline: samples of many hosts become one row a minute, and alarms if a service runs hot.

Only final results are published: the row of a minute is sent once, when it can't change any more, so that its
readers need no updates. Samples may be up to five seconds late. Invalid samples go to the dead-letter topic.
The sums of a minute are computed on Arrow columns, from all its samples in a batch at once.

    samples         host ("web-3") → {"cpu": 71, "requests": 120}       cpu in percent
    host-minutes    host → {"minute": "2026-03-01T12:00:00Z", "cpu_mean": 64.5, "cpu_max": 80, "requests": 9}
    hot-services    service ("web") → {"cpu": mean of five minutes, "until": "2026-03-01T12:05:00Z"}
"""

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from penstock.streams import App, Windowed, hopping, json, string, tumbling, until_window_closes, vectorised

HOT = 90

app = App("metrics-pipeline", key=string, value=json, dead_letter="samples-broken")
samples = app.stream("samples")


@vectorised(pa.struct({"cpu": pa.int64(), "requests": pa.int64()}))
def add(host: str, samples: pa.StructArray, minute: dict) -> dict:
    cpu, requests = samples.field("cpu"), samples.field("requests")
    if cpu.null_count or requests.null_count:
        raise ValueError(f"a sample of {host} has no cpu or no requests")
    return {
        "samples": minute.get("samples", 0) + len(samples),
        "cpu": minute.get("cpu", 0) + pc.sum(cpu).as_py(),
        "cpu_max": max(minute.get("cpu_max", 0), pc.max(cpu).as_py()),
        "requests": minute.get("requests", 0) + pc.sum(requests).as_py(),
    }


def utc(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def row(at: Windowed[str], minute: dict) -> tuple[str, dict]:
    mean = minute["cpu"] / minute["samples"]
    figures = {"cpu_mean": mean, "cpu_max": minute["cpu_max"], "requests": minute["requests"]}
    return at.key, {"minute": utc(at.window.start_ms), **figures}


minutes = samples.group_by_key().windowed_by(tumbling("1 minute", grace="5 seconds"))
summed = minutes.aggregate(dict, add, store="minutes")
summed.suppress(until_window_closes()).to_stream().map(row).to("host-minutes")

by_service = samples.group_by(lambda host, sample: host.split("-")[0], name="by-service")
load = by_service.windowed_by(hopping("5 minutes", advance="1 minute", grace="5 seconds"), emit="on_close")
hot = load.avg(lambda sample: sample["cpu"], store="load").to_stream().filter(lambda at, cpu: cpu >= HOT)
hot.map(lambda at, cpu: (at.key, {"cpu": cpu, "until": utc(at.window.end_ms)})).to("hot-services")
