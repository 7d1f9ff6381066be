"""One node, over HTTP."""

from __future__ import annotations

import threading
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from view_client import ask, ask_key
from views_cluster import Runner, counting_app

from penstock.testing import Cluster
from penstock.views.server import ViewServer

KEYS = [f"k{n:03}" for n in range(100)]
OF_PARTITIONS = ("entries", "lag", "ready", "records_applied_total")


@pytest.fixture(scope="module")
def runner(penstock_cluster: Cluster) -> Runner:
    name = f"http-{uuid.uuid4().hex[:12]}"
    made = Runner(penstock_cluster.bootstrap_servers, counting_app(name, f"{name}-in"), {f"{name}-in": 3})
    made.create_topics()
    made.process(f"{name}-in", [(key.encode(), "x", 1 + n) for n, key in enumerate(KEYS)])
    made.process(f"{name}-in", [("a/b é?".encode(), "x", 500)])
    return made


@pytest.fixture(scope="module")
def endpoint(runner: Runner) -> Iterator[str]:
    server = ViewServer(runner.topology, bootstrap_servers=runner.servers, port=0)
    server.start()
    server.wait_until_ready()
    yield server.endpoint
    server.close()


def test_a_value_comes_with_its_time_and_position(endpoint: str, runner: Runner) -> None:
    found = ask_key(endpoint, "counts", "k007")
    changelog = runner.topology.changelog_topic("counts")
    assert found.status == 200
    assert {name: found.body[name] for name in ("store", "key", "value", "timestamp_ms")} == {
        "store": "counts",
        "key": "k007",
        "value": 1,
        "timestamp_ms": 8,
    }
    [(partition, offset)] = found.body["position"][changelog].items()
    assert found.headers["penstock-position"] == f'{{"{changelog}":{{"{partition}":{offset}}}}}'
    assert offset > 0
    odd = ask_key(endpoint, "counts", "a/b é?")
    assert (odd.status, odd.body["key"]) == (200, "a/b é?")
    bare = ask(endpoint, "/stores/counts/keys/azAwNw", encoding="base64").body
    assert (bare["key"], bare["value"]) == ("azAwNw", "AAAAAAAAAAE")


def test_errors_have_names(endpoint: str) -> None:
    missing = ask_key(endpoint, "counts", "nobody")
    assert (missing.status, missing.error) == (404, "KEY_NOT_FOUND")
    assert missing.headers["penstock-position"] != "{}"
    for path, status, code in [
        ("/stores/nothing/keys/a", 404, "UNKNOWN_STORE"),
        ("/stores/counts/keys/a/windows", 400, "UNSUPPORTED_QUERY"),
        ("/stores/counts/entries?limit=0", 400, "INVALID_QUERY"),
        ("/stores/counts/entries?limit=1&limit=2", 400, "INVALID_QUERY"),
        ("/stores/counts", 400, "INVALID_QUERY"),
        ("/stores/counts/keys/a?partitions=0", 404, "KEY_NOT_FOUND"),
        ("/stores/counts/keys/a?partitions=7", 400, "INVALID_QUERY"),
    ]:
        found = ask(endpoint, path)
        assert (path, found.status, found.error) == (path, status, code)


def samples(endpoint: str) -> Counter[str]:
    """The samples of a scrape, by name and labels."""
    with urllib.request.urlopen(f"{endpoint}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return Counter(found)


def test_requests_and_partitions_are_counted(endpoint: str) -> None:
    before = samples(endpoint)
    for path in (
        "/stores/counts/keys/k001",
        "/stores/counts/keys/a%2Fb%20%C3%A9%3F",
        "/stores/counts/keys/nobody",
        "/stores/windows/keys/k042/windows?limit=1",
        "/stores/counts/entries",
        "/stores/counts",
        "/health/ready",
    ):
        ask(endpoint, path)
    found = samples(endpoint)
    requests = found - before  # only what has grown
    assert {
        name.partition(" ")[2]: count
        for name, count in requests.items()
        if name.startswith("penstock_http_requests_total ")
    } == {
        "200 /stores/{store}/keys/{key} GET": 2,
        "404 /stores/{store}/keys/{key} GET": 1,
        "200 /stores/{store}/keys/{key}/windows GET": 1,
        "200 /stores/{store}/entries GET": 1,
        "400 other GET": 1,
        "200 /health/ready GET": 1,
        "200 /metrics GET": 1,
    }
    of_counts = {
        name: [found[f"penstock_view_{name} {n} counts"] for n in range(3)] for name in OF_PARTITIONS
    }
    assert sum(of_counts["entries"]) == len(KEYS) + 1
    assert sum(of_counts["records_applied_total"]) >= len(KEYS) + 1
    assert (of_counts["lag"], of_counts["ready"]) == ([0] * 3, [1] * 3)
    assert (found["penstock_view_following"], found["penstock_view_members"]) == (1, 1)
    assert "penstock_build_info" in " ".join(found)


@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize("limit", [7, 100, 1000])
def test_pages_together_are_the_whole_in_order(endpoint: str, limit: int, reverse: str) -> None:
    entries, token = [], None
    while True:
        more = {} if token is None else {"after": token}
        page = ask(
            endpoint,
            "/stores/counts/entries",
            first="k010",
            last="k089",
            limit=limit,
            reverse=reverse,
            **more,
        )
        assert page.status == 200
        assert len(page.body["entries"]) <= limit
        entries += page.body["entries"]
        token = page.body["next"]
        if token is None:
            break
    expected = KEYS[10:90][:: -1 if reverse == "true" else 1]
    assert [entry["key"] for entry in entries] == expected
    assert set(entries[0]) == {"key", "value", "timestamp_ms"}
    assert len(page.body["position"][next(iter(page.body["position"]))]) == 3


def test_windows_sessions_and_counts(endpoint: str) -> None:
    windows = ask_key(endpoint, "windows", "k042/windows".partition("/")[0], start_ms=40)
    assert (windows.body["value"], windows.body["window"]) == (1, {"start_ms": 40, "end_ms": 50})
    of_key = ask(endpoint, "/stores/windows/keys/k042/windows").body["entries"]
    assert of_key == [
        {"key": "k042", "value": 1, "timestamp_ms": 43, "window": {"start_ms": 40, "end_ms": 50}}
    ]
    late = ask(endpoint, "/stores/windows/entries", from_ms=90, to_ms=100).body["entries"]
    assert sorted(entry["key"] for entry in late) == KEYS[89:]
    one = ask(endpoint, "/stores/sessions/keys/k042/windows").body["entries"]
    assert one == [{"key": "k042", "value": 1, "window": {"start_ms": 43, "end_ms": 43}}]
    assert ask(endpoint, "/stores/counts/count").body["count"] == 101
    assert ask(endpoint, "/stores/counts/entries", prefix="k01").body["next"] is None
    names = {store["name"]: store["kind"] for store in ask(endpoint, "/stores").body["stores"]}
    assert names == {"counts": "key-value", "windows": "window", "sessions": "session"}


def test_health_tells_of_every_partition(endpoint: str, runner: Runner) -> None:
    found = ask(endpoint, "/health/ready")
    assert (found.status, found.body["status"], found.body["members"]) == (200, "ready", [endpoint])
    assert len(found.body["partitions"]) == 9
    assert (
        sum(kept["entries"] for kept in found.body["partitions"].values() if kept["store"] == "counts") == 101
    )


def test_a_reader_waits_for_the_position_he_asks_for(endpoint: str, runner: Runner) -> None:
    topic = next(iter(runner.topology.source_topics()))
    [(partition, end)] = runner.write(topic, [(b"late", "x", 600)]).items()
    wanted = {"penstock-at-least": f'{{"{topic}":{{"{partition}":{end}}}}}'}
    path = "/stores/counts/keys/late"
    began = time.monotonic()
    early = ask(endpoint, path, wanted, timeout_ms=300)
    assert (early.status, early.error) == (504, "POSITION_NOT_REACHED")
    assert time.monotonic() - began > 0.25
    rows = [(b"late", "x", 600)]
    threading.Timer(0.2, lambda: runner.process(topic, rows, read_until={(topic, partition): end})).start()
    found = ask(endpoint, path, wanted, timeout_ms=20_000)
    assert (found.status, found.body["value"]) == (200, 1)
    unrelated = ask(endpoint, path, {"penstock-at-least": '{"other":{"0":1}}'})
    assert (unrelated.status, unrelated.error) == (400, "INVALID_QUERY")
