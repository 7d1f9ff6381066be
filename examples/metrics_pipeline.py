"""Metrics pipeline: samples of many hosts become one row a minute, and alarms where a service runs hot.

Only final results leave: a minute is sent once, when it can't change any more, so that whoever stores it need
not update it. Samples may come five seconds late. What is no sample goes to the dead letters.

    samples         host ("web-3") → {"cpu": 0.71, "requests": 120}
    host-minutes    host → {"minute": "2026-03-01T12:00:00Z", "cpu_mean": …, "cpu_max": …, "requests": …}
    hot-services    service ("web") → {"cpu": mean of the last five minutes, "until": "2026-03-01T12:05:00Z"}
"""

from datetime import UTC, datetime

from penstock.streams import App, Windowed, hopping, json, string, tumbling, until_window_closes

HOT = 0.9

app = App("metrics-pipeline", key=string, value=json, dead_letter="samples-broken")
samples = app.stream("samples")


def add(host: str, sample: dict, minute: dict) -> dict:
    return {
        "samples": minute.get("samples", 0) + 1,
        "cpu": minute.get("cpu", 0) + sample["cpu"],
        "cpu_max": max(minute.get("cpu_max", 0), sample["cpu"]),
        "requests": minute.get("requests", 0) + sample["requests"],
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
