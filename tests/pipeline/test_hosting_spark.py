"""Applications in one query on Spark are added, paused, failed and removed while the others run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from streams_node import Node

from penstock.spark.hosting import Host, HostStopped, Standing
from penstock.streams import App, long, string, tumbling
from penstock.testing import Cluster
from waiting import wait_until

TIMEOUT_S = 60
OWN_TOPIC = "commands"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Cluster({"log.cleaner.backoff.ms": "100"}) as cluster:
        found = Node(cluster.bootstrap_servers)
        found.create(1, OWN_TOPIC)
        yield found


@pytest.fixture
def hosted(node: Node, spark: Any, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    started: list[Host] = []

    def start(**settings: Any) -> Host:
        host = Host.start(
            "host-of-tests",
            bootstrap_servers=node.servers,
            topic=OWN_TOPIC,
            spark=spark,
            **{"checkpoint": tmp_path / "checkpoint", **settings},
        )
        started.append(host)
        return host

    yield start
    for host in started:
        host.close()


def filtering(source: str, sink: str) -> App:
    app = App(f"of-{sink}", key=string, value=string)
    app.stream(source).filter(lambda key, value: value != "drop").to(sink)
    return app


def counting(source: str, sink: str) -> App:
    app = App(f"of-{sink}", key=string, value=string)
    app.stream(source).group_by_key().count(store="counts").to_stream().to(sink, value=long)
    return app


def closing(source: str, sink: str) -> App:
    app = App(f"of-{sink}", key=string, value=string)
    seconds = app.stream(source).group_by_key().windowed_by(tumbling("1 s"), emit="on_close")
    closed = seconds.count(store="counts", retention="60 s").to_stream(lambda at, count: at.key)
    closed.to(sink, key=string, value=long)
    return app


def windowed(source: str, sink: str) -> App:
    """An application with state on both sides of a repartition topic."""
    app = App(f"of-{sink}", key=string, value=string)
    stream = app.stream(source)
    stream.group_by_key().count(store="counts")
    windows = stream.group_by(lambda key, value: value).windowed_by(tumbling("100 ms", grace="20 ms"))
    by_window = windows.count(store="windows").to_stream(lambda at, count: str(at.window.start_ms))
    by_window.map_values(str).to(sink)
    return app


def refusing(source: str, sink: str) -> App:
    app = App(f"of-{sink}", key=string, value=string)
    app.stream(source).map_values(checked).to(sink)
    return app


def keyless(source: str, sink: str) -> App:
    app = App(f"of-{sink}", key=string, value=string)
    app.stream(source).select_key(lambda key, value: None).to(sink)
    return app


def checked(value: str) -> str:
    if value == "bad":
        raise ValueError("found a bad value")
    return value


def records(topic: str, *values: str) -> list[tuple[str, bytes, bytes, int]]:
    return [(topic, b"k%d" % (n % 3), value.encode(), 1000 + n) for n, value in enumerate(values)]


def values(node: Node, topic: str) -> list[str]:
    return [(value or b"").decode() for _, value, _ in node.read(topic)]


def counts(node: Node, topic: str) -> list[int]:
    return sorted(int.from_bytes(value or b"") for _, value, _ in node.read(topic))


def metric(host: Host, name: str) -> float:
    """A sample of the host's query, without further labels."""
    found = [sample for family in host.metrics.collect() for sample in family.samples if sample.name == name]
    assert [sample.labels for sample in found] == [{"query": "host-of-tests"}]
    return float(found[0].value)


def topics(node: Node) -> set[str]:
    return set(AdminClient({"bootstrap.servers": node.servers}).list_topics(timeout=60).topics)


def test_members_come_while_others_run_and_go_on_after_a_restart(
    node: Node, hosted: Callable[..., Host]
) -> None:
    node.create(2, "a", "a-kept", "a-counts", "a-late")
    node.write(records("a", "one", "drop", "two"))
    host = hosted()
    host.add("kept", filtering("a", "a-kept").topology())
    host.add("counts", counting("a", "a-counts").topology())
    wait_until(
        lambda: sorted(values(node, "a-kept")) == ["one", "two"] and counts(node, "a-counts") == [1] * 3
    )
    host.add("late", counting("a", "a-late").topology())
    wait_until(lambda: counts(node, "a-late") == [1] * 3)
    kept = host.activity()["kept"]
    assert (kept.read, kept.written) == ({"a": 3}, {"a-kept": 2})
    host.close()
    node.write(records("a", "three", "drop", "four"))
    again = hosted()
    wait_until(lambda: sorted(values(node, "a-kept")) == ["four", "one", "three", "two"])
    wait_until(lambda: counts(node, "a-counts") == counts(node, "a-late") == [1, 1, 1, 2, 2, 2])
    assert {name: state.standing for name, state in again.states().items()} == dict.fromkeys(
        ("kept", "counts", "late"), Standing.RUNNING
    )
    wait_until(lambda: [node.lag(f"of-{sink}", "a") for sink in ("a-kept", "a-counts", "a-late")] == [0] * 3)


def test_a_batch_of_many_windows_makes_no_record_late_behind_a_repartition_topic(
    node: Node, hosted: Callable[..., Host]
) -> None:
    node.create(4, "many")
    node.create(1, "many-windows")
    node.write([("many", b"k%d" % (n % 97), b"x", 1000 + n) for n in range(1000)])
    node.write([("many", b"k0", b"x", 1)])  # is late
    host = hosted(shuffle_partitions=2)
    host.add("windows", windowed("many", "many-windows").topology())

    def last() -> dict[bytes | None, bytes | None]:
        return {key: value for key, value, _ in node.read("many-windows")}

    wait_until(lambda: last() == {b"%d" % ms: b"100" for ms in range(1000, 2000, 100)})
    wait_until(lambda: [*host.activity()["windows"].dropped.values()] == [1])
    [node_name] = host.activity()["windows"].dropped
    families = {family.name: family for family in host.metrics.collect()}
    [sample] = families["penstock_query_dropped_records"].samples
    assert (sample.labels, sample.value) == ({"query": "windows", "node": node_name}, 1)


def let_old_records_go(node: Node) -> None:
    """Wait for two rounds of the broker's cleaner, of which the second checks every log."""
    admin, topic = node.admin, f"old-{time.monotonic_ns()}"
    config = {"cleanup.policy": "compact,delete", "retention.ms": "1000"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    for _ in range(2):
        node.write([(topic, b"k", b"", 1_000)])
        wait_until(lambda: not node.messages(topic))


@pytest.mark.long
def test_without_its_checkpoint_it_sends_no_window_again_however_old(
    node: Node, hosted: Callable[..., Host], tmp_path: Path
) -> None:
    node.create(1, "w", "w-closed")
    node.write([("w", b"k", b"", 1_000), ("w", b"k", b"", 1_500), ("w", b"k", b"", 5_000)])
    host = hosted()
    host.add("closed", closing("w", "w-closed").topology())
    wait_until(lambda: counts(node, "w-closed") == [2])
    host.close()
    let_old_records_go(node)
    hosted(checkpoint=tmp_path / "another").add("closed", closing("w", "w-closed").topology())
    node.write([("w", b"k", b"", 1_200), ("w", b"k", b"", 9_000)])
    wait_until(lambda: len(counts(node, "w-closed")) > 1)
    assert counts(node, "w-closed") == [1, 2]


def test_one_that_fails_stands_still_and_leaves_nothing_out_when_it_tries_again(
    node: Node, hosted: Callable[..., Host]
) -> None:
    node.create(1, "b", "b-fails", "b-goes")
    host = hosted(retry_s=lambda failures: 3600.0)
    host.add("fails", refusing("b", "b-fails").topology())
    host.add("goes", counting("b", "b-goes").topology())
    node.write(records("b", "x", "y"))
    wait_until(lambda: values(node, "b-fails") == ["x", "y"])
    node.write(records("b", "z", "bad", "x"))
    wait_until(lambda: host.states()["fails"].standing is Standing.FAILED)
    error, [trouble] = host.states()["fails"].error, host.states()["fails"].troubles
    assert (trouble.error, host.trouble) == (error, None), "it is nobody else's"
    assert error.startswith("RecordFailed: ")
    assert "ValueError: found a bad value" in error
    wait_until(lambda: len(counts(node, "b-goes")) == 5)
    assert values(node, "b-fails") == ["x", "y"]
    wait_until(lambda: node.lag("of-b-goes", "b") == 0)
    assert node.lag("of-b-fails", "b") == 3, "the group is not ahead of what was written"
    node.write(records("b", "last"))
    wait_until(lambda: len(counts(node, "b-goes")) == 6)
    host.add("fails", filtering("b", "b-fails").topology())
    wait_until(lambda: values(node, "b-fails") == ["x", "y", "z", "bad", "x", "last"])
    assert host.states()["goes"].standing is Standing.RUNNING


@pytest.mark.long
def test_one_whose_topic_refuses_a_record_leaves_the_others_alone(
    node: Node, hosted: Callable[..., Host]
) -> None:
    node.create(1, "f", "f-goes")
    small = NewTopic("f-small", 1, 1, config={"retention.ms": "-1", "max.message.bytes": "200"})
    admin = node.admin
    admin.create_topics([small])["f-small"].result(30)
    host = hosted(retry_s=lambda failures: 3600.0)
    host.add("small", filtering("f", "f-small").topology())
    host.add("goes", filtering("f", "f-goes").topology())
    node.write(records("f", "x"))
    wait_until(lambda: values(node, "f-small") == values(node, "f-goes") == ["x"])
    node.write(records("f", "y" * 1000))
    wait_until(lambda: values(node, "f-goes") == ["x", "y" * 1000])
    failed = host.states()["small"]
    assert failed.standing is Standing.FAILED
    assert failed.error.startswith("RecordTooLarge: a record for topic 'f-small'")
    assert (host.states()["goes"].standing, host.trouble) == (Standing.RUNNING, None)


def test_one_whose_record_a_broker_refuses_leaves_the_others_alone(
    node: Node, hosted: Callable[..., Host]
) -> None:
    """Only the broker finds that a record without a key cannot be in a compacted topic."""
    node.create(1, "n", "n-goes")
    keyed = NewTopic("n-keyed", 1, 1, config={"cleanup.policy": "compact"})
    admin = node.admin
    admin.create_topics([keyed])["n-keyed"].result(30)
    host = hosted(retry_s=lambda failures: 3600.0)
    host.add("keyless", keyless("n", "n-keyed").topology())
    host.add("goes", filtering("n", "n-goes").topology())
    node.write(records("n", "x"))
    wait_until(lambda: values(node, "n-goes") == ["x"])
    failed = host.states()["keyless"]
    assert failed.standing is Standing.FAILED
    assert failed.error.startswith("DeliveryFailed: records were not acknowledged: produce to n-keyed-0")
    assert "INVALID_RECORD" in failed.error
    assert (host.states()["goes"].standing, host.trouble) == (Standing.RUNNING, None)
    wait_until(lambda: node.lag("of-n-goes", "n") == 0)
    wait_until(lambda: metric(host, "penstock_query_batch_seconds_count") >= 1)
    assert metric(host, "penstock_query_active") == 1
    assert metric(host, "penstock_query_failures_total") == metric(host, "penstock_query_restarts_total") == 1
    assert node.lag("of-n-keyed", "n") == 1
    node.write(records("n", "y"))
    wait_until(lambda: values(node, "n-goes") == ["x", "y"])
    host.add("keyless", filtering("n", "n-keyed").topology())
    wait_until(lambda: values(node, "n-keyed") == ["x", "y"])


def test_pause_resume_and_remove(node: Node, hosted: Callable[..., Host]) -> None:
    node.create(1, "c", "c-counts", "c-others")
    host = hosted()
    host.add("counts", counting("c", "c-counts").topology())
    host.add("others", counting("c", "c-others").topology())
    node.write(records("c", "x", "y", "z"))
    wait_until(lambda: counts(node, "c-counts") == counts(node, "c-others") == [1, 1, 1])
    host.pause("counts")
    host.wait_until_read()
    node.write(records("c", "x", "y", "z"))
    wait_until(lambda: counts(node, "c-others") == [1, 1, 1, 2, 2, 2])
    assert counts(node, "c-counts") == [1, 1, 1]
    host.resume("counts")
    wait_until(lambda: counts(node, "c-counts") == [1, 1, 1, 2, 2, 2])
    changelog = "of-c-counts-counts-changelog"
    assert changelog in topics(node)
    host.remove("counts")
    wait_until(lambda: changelog not in topics(node))
    assert "of-c-others-counts-changelog" in topics(node)
    # A new member with the same name starts without any of the old state.
    host.add("counts", counting("c", "c-counts").topology())
    wait_until(lambda: counts(node, "c-counts")[-3:] == [2, 2, 2] and len(counts(node, "c-counts")) == 12)
    assert set(host.states()) == {"counts", "others"}


def test_nothing_is_written_for_one_that_is_gone_and_one_of_its_name_begins_anew(
    node: Node, hosted: Callable[..., Host], tmp_path: Path
) -> None:
    node.create(1, "e", "e-counts")
    host = hosted()
    host.add("counts", counting("e", "e-counts").topology())
    node.write(records("e", *["x"] * 3000))
    wait_until(lambda: len(counts(node, "e-counts")) > 0)
    host.remove("counts")
    assert host.wait_until_gone(TIMEOUT_S) == ()
    written = len(counts(node, "e-counts"))
    node.write(records("e", "x"))
    host.add("counts", counting("e", "e-counts").topology())  # waits until the first one's topics are deleted
    wait_until(lambda: counts(node, "e-counts")[-1:] != [])
    wait_until(lambda: len(counts(node, "e-counts")) == written + 3001)
    assert len(list((tmp_path / "checkpoint" / "penstock" / "members").iterdir())) == 1
    host.close()
    assert host.wait_until_gone(0) == ()


@pytest.mark.long
def test_the_host_that_started_last_goes_on_and_the_other_stops(
    node: Node, hosted: Callable[..., Host], spark: Any, tmp_path: Path
) -> None:
    """A host with a new checkpoint continues from the groups' offsets and the changelogs."""
    node.create(1, "d", "d-counts")
    first = hosted()
    first.add("counts", counting("d", "d-counts").topology())
    node.write(records("d", "x", "y", "z"))
    wait_until(lambda: counts(node, "d-counts") == [1, 1, 1])
    second = hosted(checkpoint=tmp_path / "other")
    second.add("counts", counting("d", "d-counts").topology())
    node.write(records("d", "x", "y", "z"))
    wait_until(lambda: counts(node, "d-counts") == [1, 1, 1, 2, 2, 2])
    wait_until(lambda: "RunFenced" in str(first.trouble))
    with pytest.raises(HostStopped, match="was replaced by a later one"):
        first.pause("counts")
